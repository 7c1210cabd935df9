import { execFile } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eventually } from '../support/eventually.ts';
import { startGithubApi, type GithubApi } from '../support/github-api.ts';
import { githubAppOperations, type TokenWish } from '../support/github-app.ts';
import { Installation, program, saying } from '../support/installation.ts';
import { leaksIn, type Secrets } from '../support/leaks.ts';
import { RestUser } from '../support/rest-user.ts';
import { pushOf, startAgent, type AgentAtWork } from './support/agent-at-work.ts';
import { newAppTokens, type AppToken, type AppTokens } from './support/app-tokens.ts';
import { startForge, type Forge } from './support/forge.ts';
import { githubPullOperations } from './support/github-pulls.ts';
import { filesWith, visibleTexts } from './support/leak-scan.ts';

const run = promisify(execFile);
const [shop, other] = ['acme/shop', 'acme/other'];
const appId = 12;
/** GitHub's tokens end after an hour. */
const hourMs = 3_600_000;
const shortMs = 60_000;
const folder = mkdtempSync(join(tmpdir(), 'forge-app-'));
const keyFile = join(folder, 'key.pem');
const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const pem = String(privateKey.export({ type: 'pkcs1', format: 'pem' }));

let forge: Forge;
let tokens: AppTokens;
let github: GithubApi;
let up: Installation;
let agent: AgentAtWork;
let lifetimeMs = shortMs;
const minted: { readonly wish: TokenWish; readonly token: AppToken }[] = [];

beforeAll(async () => {
  forge = await startForge();
  tokens = newAppTokens(forge);
  await forge.newUser('acme');
  for (const name of ['shop', 'other'])
    await forge.newRepository('acme', name, { files: { 'README.md': `${name}\n` } });
  github = await startGithubApi({
    ...githubAppOperations({
      appId,
      publicKey: () => publicKey,
      installations: { 7: [shop, other] },
      mint: async (wish) => {
        const [repository = ''] = wish.repositories;
        const token = await tokens.mintFor(repository, wish.permissions, lifetimeMs);
        minted.push({ wish, token });
        return token;
      },
    }),
    ...githubPullOperations(forge),
  });
  writeFileSync(keyFile, pem, { mode: 0o600 });
  up = await Installation.start({
    env: {
      GIT_HOSTS: JSON.stringify({ github: forge.url }),
      GIT_API_URLS: JSON.stringify({ github: github.url }),
      GITHUB_APP_ID: String(appId),
      GITHUB_APP_PRIVATE_KEY_FILE: keyFile,
      GITHUB_APP_OWNERS: JSON.stringify({ local: [shop] }),
      LOG_LEVEL: 'debug',
    },
  });
  agent = await startAgent(up, shop);
});
afterAll(async () => {
  await up.stop();
  await tokens[Symbol.asyncDispose]();
  await github.close();
  await forge.close();
  rmSync(folder, { recursive: true });
  expect(github.violations).toEqual([]);
});

async function reads(token: string, repository: string): Promise<boolean> {
  const authorization = Buffer.from(`x-access-token:${token}`).toString('base64');
  try {
    const { stdout } = await run('git', ['ls-remote', `${forge.url}/${repository}.git`], {
      env: {
        PATH: process.env['PATH'],
        HOME: folder,
        no_proxy: '*',
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_TERMINAL_PROMPT: '0',
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: 'http.extraHeader',
        GIT_CONFIG_VALUE_0: `Authorization: Basic ${authorization}`,
      },
    });
    return stdout.includes('refs/heads/main');
  } catch {
    return false;
  }
}

const open = (body: object) =>
  up.call('POST', `/api/v1/app-conversations/${agent.conversation}/pull-request`, body);

it('an agent has a clone of a private repository, and its branch reaches the forge', async () => {
  expect(readFileSync(join(agent.project, 'README.md'), 'utf8')).toBe('shop\n');
  expect(await agent.run(pushOf('agent/first'))).toMatchObject({ code: 0 });
  const { output: commit } = await agent.run('git rev-parse HEAD');
  expect(await forge.branches(shop)).toMatchObject({ 'agent/first': commit.trim() });
});

it('every token is for the one repository, and for code and pull requests alone', async () => {
  const last = minted.at(-1);
  expect(minted.map(({ wish }) => wish)).toEqual(
    minted.map(() => ({
      repositories: [shop],
      permissions: { contents: 'write', pull_requests: 'write' },
    })),
  );
  expect(await reads(last?.token.token ?? '', shop)).toBe(true);
  expect(await reads(last?.token.token ?? '', other)).toBe(false);
  expect(await reads(forge.adminToken, other)).toBe(true);
});

it('a pull request is opened once, with comments, by tokens of the App', async () => {
  const { status, body } = await open({ title: 'First', body: 'By an agent.', draft: true });
  const url = `${forge.url}/${shop}/pulls/1`;
  expect([status, body]).toEqual([201, { number: 1, url, provider: 'github' }]);
  const [pull] = await forge.pulls(shop);
  expect(pull).toMatchObject({
    title: 'WIP: First',
    body: 'By an agent.',
    state: 'open',
    isDraft: true,
    head: 'agent/first',
    base: 'main',
    author: expect.stringMatching(/^app-/) as string,
  });
  expect(await open({ title: 'Again' })).toMatchObject({
    status: 409,
    body: { code: 'pull-request-exists', detail: expect.stringContaining(url) as string },
  });
  expect(await open({ title: 'x', base: 'none' })).toMatchObject({
    status: 422,
    body: { code: 'pull-request-invalid' },
  });
  const text = ['```tool comment', '{"body": "Please review."}', '```'].join('\n');
  await up.call('POST', `/api/v1/app-conversations/${agent.conversation}/send-message`, {
    role: 'user',
    content: [{ type: 'text', text }],
    run: true,
  });
  await eventually('the comment', async () => {
    const { body: comments } = await forge.api('GET', `/repos/${shop}/issues/1/comments`);
    return JSON.stringify(comments).includes('Please review.');
  });
  expect(await up.conversation(agent.conversation)).toMatchObject({ pr_number: [1] });
});

it('a push after the end of the first token has another one', async () => {
  const [first] = minted;
  await eventually(
    'the end of the first token',
    async () => !(await reads(first?.token.token ?? '', shop)),
    1.5 * shortMs,
  );
  expect(Date.now()).toBeGreaterThanOrEqual(first?.token.expiresAt.getTime() ?? Infinity);
  expect(await agent.run(pushOf('agent/renewed'))).toMatchObject({ code: 0 });
  expect(await forge.branches(shop)).toHaveProperty('agent/renewed');
});

it('a token of an hour serves all work of that hour', async () => {
  lifetimeMs = hourMs;
  expect(await agent.run(pushOf('agent/hour'))).toMatchObject({ code: 0 });
  const count = minted.length;
  expect(await agent.run(`git fetch && ${pushOf('agent/hour')}`)).toMatchObject({ code: 0 });
  expect(await open({ title: 'Hour', head: 'agent/hour' })).toMatchObject({ status: 201 });
  expect(minted).toHaveLength(count);
});

describe('the App', () => {
  const denied = { status: 403, body: { code: 'repository-access-denied' } };
  const start = (user: RestUser, repository: string) =>
    user.call('POST', '/api/v1/app-conversations', {
      ...saying('Hello.'),
      selected_repository: repository,
    });

  it.each([
    ['an owner without a rule', 'eve', shop],
    ['a repository without a rule', 'local', other],
  ])('gets no token for %s', async (_what, owner, repository) => {
    const [count, calls] = [minted.length, github.calls.length];
    const { stdout } = await run(process.execPath, [
      ...[program, 'keys', 'create', '--owner', owner, '--kubeconfig', up.kubeconfig],
    ]);
    const user = new RestUser({ url: up.url, key: stdout.trim() });
    expect(await start(user, repository)).toMatchObject(denied);
    expect([minted.length, github.calls.length]).toEqual([count, calls]);
  });
});

describe('the private key and the tokens', () => {
  const secrets = (): Secrets => ({
    key: pem,
    'a line of the key': pem.split('\n')[3] ?? '',
    ...Object.fromEntries(
      minted.flatMap(({ token: { token } }, index) => [
        [`token ${index}`, token],
        [`token ${index} as git sends it`, `x-access-token:${token}`],
      ]),
    ),
    ...Object.fromEntries(
      github.calls
        .map(({ token }) => token)
        .filter((token) => token.startsWith('eyJ'))
        .map((token, index) => [`JWT ${index}`, token]),
    ),
  });

  it('are in no file of the installation and its sandboxes', () => {
    const names = Object.keys(secrets()).join();
    for (const name of ['key', 'token 0', 'JWT']) expect(names).toContain(name);
    // The scan finds what there is.
    expect(filesWith(secrets(), folder)).toEqual([keyFile]);
    expect(filesWith(secrets(), up.dataDir)).toEqual([]);
  });

  it('are in no resource, log line, argument or environment of a process', async () => {
    for (const text of await visibleTexts(up)) expect(leaksIn(text, secrets())).toEqual([]);
  });
});
