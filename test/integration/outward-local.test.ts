import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GitServer } from '../support/git-server.ts';
import { Installation, program } from '../support/installation.ts';
import { startOutside, type Outside } from '../support/outside.ts';
import { privateAuthority } from '../support/private-authority.ts';

const authority = privateAuthority(['git.example.test']);
const folder = mkdtempSync(join(tmpdir(), 'outward-local-'));
let host: GitServer;
let proxy: Outside;
let up: Installation;
beforeAll(async () => {
  mkdirSync(join(folder, 'git'));
  writeFileSync(join(folder, 'git', 'forgejo'), 'bot:forge-t0ken');
  writeFileSync(join(folder, 'ca.crt'), authority.ca);
  host = await GitServer.start({
    repositories: { 'acme/open': {}, 'acme/secret': {} },
    readers: { 'acme/secret': ['bot:forge-t0ken'] },
  });
  proxy = await startOutside({
    authority,
    https: { 'git.example.test': host.url },
    user: 'user:pr0xy-p4ss',
  });
  up = await Installation.start({
    env: {
      HTTPS_PROXY: `http://user:pr0xy-p4ss@127.0.0.1:${proxy.port}`,
      TRUST_FILE: join(folder, 'ca.crt'),
      GIT_HOSTS: '{"forgejo":"https://git.example.test"}',
      GIT_CREDENTIALS_DIR: join(folder, 'git'),
    },
  });
});
beforeEach(() => void proxy.requests.splice(0));
afterAll(async () => {
  await up.stop();
  await proxy[Symbol.asyncDispose]();
  await host.stop();
  rmSync(folder, { recursive: true });
});

it.each(['acme/open', 'acme/secret'])(
  'a start with %s reaches its host by the proxy alone, and the callback server directly',
  async (repository) => {
    const { id } = await up.start('Hello.', { selected_repository: repository });
    expect(await up.over(id)).toMatchObject({ status: 'READY', error: null });
    expect(new Set(proxy.requests)).toEqual(new Set(['CONNECT git.example.test:443']));
    expect(proxy.bytes()).not.toContain('agent-side');
    expect(proxy.bytes()).not.toContain(Buffer.from('bot:forge-t0ken').toString('base64'));
  },
);

it('one line says by which proxy it goes out, without its credentials', () => {
  const line = up.output.split('\n').find((each) => each.includes('hosts outside the cluster'));
  expect(JSON.parse(line ?? '{}')).toMatchObject({
    httpsProxy: `http://127.0.0.1:${proxy.port}`,
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
