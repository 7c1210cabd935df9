import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { pushOf, toolCall } from '../forge/support/agent-at-work.ts';
import { startBehindProxy, storeHost, type BehindProxy } from '../support/behind-proxy.ts';
import { GitServer } from '../support/git-server.ts';
import { Installation, program } from '../support/installation.ts';
import { startJsonHost, type JsonHost } from '../support/json-host.ts';

const token = 'forge-t0ken';
const folder = mkdtempSync(join(tmpdir(), 'outward-local-'));
let host: GitServer;
let api: JsonHost;
let outside: BehindProxy;
let up: Installation;
beforeAll(async () => {
  mkdirSync(join(folder, 'git'));
  writeFileSync(join(folder, 'git', 'forgejo'), `bot:${token}`);
  host = await GitServer.start({
    repositories: { 'acme/open': {}, 'acme/secret': {} },
    readers: { 'acme/secret': [`bot:${token}`] },
  });
  api = await startApi();
  outside = await startBehindProxy({ 'git.example.test': host.url, 'api.example.test': api.url });
  up = await Installation.start({
    env: {
      ...outside.env,
      GIT_HOSTS: '{"forgejo":"https://git.example.test"}',
      GIT_API_URLS: '{"forgejo":"https://api.example.test/api/v1"}',
      GIT_CREDENTIALS_DIR: join(folder, 'git'),
    },
  });
});
beforeEach(() => void outside.proxy.requests.splice(0));
afterAll(async () => {
  await up.stop();
  await outside[Symbol.asyncDispose]();
  await api.close();
  await host.stop();
  rmSync(folder, { recursive: true });
});

/** The API of the git host, for a pull request in acme/secret. */
function startApi(): Promise<JsonHost> {
  const repository = '/api/v1/repos/acme/secret';
  return startJsonHost(({ method, target, headers, body }) => {
    if (headers.authorization !== `token ${token}`) return { status: 401 };
    if (target === repository)
      return { body: { full_name: 'acme/secret', default_branch: 'main' } };
    if (method !== 'POST' || target !== `${repository}/pulls`) return { status: 404 };
    const { title, head, base } = z.record(z.string(), z.string()).parse(body);
    return {
      status: 201,
      body: {
        number: 7,
        html_url: 'https://git.example.test/acme/secret/pulls/7',
        title,
        state: 'open',
        merged: false,
        draft: false,
        head: { ref: head, repo_id: 1 },
        base: { ref: base, repo_id: 1 },
      },
    };
  });
}

it('a start with an open repository reaches its host by the proxy alone, and the callback server directly', async () => {
  const { id } = await up.start('Hello.', { selected_repository: 'acme/open' });
  expect(await up.over(id)).toMatchObject({ status: 'READY', error: null });
  const asked = outside.proxy.requests.filter((line) => !line.includes(storeHost));
  expect(new Set(asked)).toEqual(new Set(['CONNECT git.example.test:443']));
});

it('a private repository is cloned and pushed, a pull request opened and the events archived by the proxy alone, which sees no credential', async () => {
  const { id: start } = await up.start(
    [
      `\`\`\`sh\n${pushOf('agent/work')}\n\`\`\``,
      toolCall('create_pull_request', { title: 'Work', body: 'By an agent.' }),
    ].join('\n'),
    { selected_repository: 'acme/secret' },
  );
  const { status, app_conversation_id, sandbox_id } = await up.over(start);
  expect(status).toBe('READY');
  const id = app_conversation_id ?? '';
  const { session_api_key } = await up.reaches(id, { execution_status: 'finished' });
  expect(await up.conversation(id)).toMatchObject({ pr_number: [7] });
  const live = await outside.events(up, id);
  expect(JSON.stringify(live)).toContain('acme/secret/pulls/7');

  await up.call('POST', `/api/v1/sandboxes/${sandbox_id ?? ''}/pause`);
  await up.reaches(id, { sandbox_status: 'PAUSED' });
  await outside.expectArchived(up, id, live);
  await outside.expectNothingSeen(up, {
    hosts: ['git.example.test', 'api.example.test'],
    secrets: { token, 'session key of the record': session_api_key ?? '' },
  });
});

it('one line says by which proxy it goes out, without its credentials', () => {
  const line = up.output.split('\n').find((each) => each.includes('hosts outside the cluster'));
  expect(JSON.parse(line ?? '{}')).toMatchObject({
    httpsProxy: `http://127.0.0.1:${outside.proxy.port}`,
    trustedCertificates: 1,
  });
  expect(up.output).not.toContain('pr0xy-p4ss');
});

it.each([
  [{ HTTPS_PROXY: 'ftp://us:s3cret@proxy.test' }, 'HTTPS_PROXY: must be the http or https URL'],
  [{ TRUST_FILE: '/does/not/exist' }, 'TRUST_FILE must be a file with certificates as PEM: /does'],
  [{ TRUST_FILE: program }, 'the file has no certificates as PEM'],
])('%j ends the start with one line', (env, message) => {
  const { status, stderr } = spawnSync(process.execPath, [program, 'up'], {
    env: { PATH: process.env['PATH'], DATA_DIR: join(folder, 'data'), LOG_LEVEL: 'error', ...env },
    encoding: 'utf8',
  });
  expect(status).toBe(1);
  expect(stderr.trim().split('\n')).toHaveLength(1);
  expect(stderr).toContain(message);
  expect(stderr).not.toContain('s3cret');
});
