import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eventually } from '../support/eventually.ts';
import { newAppTokens, type AppPermissions, type AppTokens } from './support/app-tokens.ts';
import { startForge, type Forge } from './support/forge.ts';

const run = promisify(execFile);
const shop = 'acme/shop';
const hourMs = 3_600_000;
const folder = mkdtempSync(join(tmpdir(), 'app-tokens-'));
let forge: Forge;
let tokens: AppTokens;

beforeAll(async () => {
  forge = await startForge();
  await forge.newUser('acme');
  for (const name of ['shop', 'other'])
    await forge.newRepository('acme', name, { files: { 'README.md': `${name}\n` } });
  await git(forge.adminToken, ['clone', '-q', urlOf(shop), 'tree']);
});
beforeEach(() => {
  tokens = newAppTokens(forge);
});
afterEach(() => tokens[Symbol.asyncDispose]());
afterAll(async () => {
  await forge.close();
  rmSync(folder, { recursive: true });
});

const urlOf = (repository: string) => `${forge.url}/${repository}.git`;

/** Runs git with a token; returns its output, or its errors where it fails. */
async function git(token: string, args: readonly string[], cwd = folder): Promise<string> {
  try {
    const { stdout } = await run('git', args, {
      cwd,
      env: {
        PATH: process.env['PATH'],
        HOME: folder,
        no_proxy: '*',
        LC_ALL: 'C',
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_TERMINAL_PROMPT: '0',
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: 'http.extraHeader',
        GIT_CONFIG_VALUE_0: `Authorization: Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`,
      },
    });
    return stdout;
  } catch (error) {
    return String((error as { readonly stderr: unknown }).stderr);
  }
}

const reads = async (token: string, repository = shop) =>
  (await git(token, ['ls-remote', urlOf(repository)])).includes('refs/heads/main');

const pushes = async (token: string, branch: string) => {
  await git(token, ['push', '-q', urlOf(shop), `main:refs/heads/${branch}`], join(folder, 'tree'));
  return Object.hasOwn(await forge.branches(shop), branch);
};

it.each<[AppPermissions, boolean]>([
  [{ contents: 'read' }, false],
  [{ contents: 'write' }, true],
  [{ contents: 'write', pull_requests: 'write' }, true],
])('a token with %j opens its repository alone', async (permissions, canPush) => {
  const { token } = await tokens.mintFor(shop, permissions, hourMs);
  expect(await reads(token)).toBe(true);
  expect(await reads(token, 'acme/other')).toBe(false);
  expect(await pushes(token, `agent/${Object.keys(permissions).join('-')}-${canPush}`)).toBe(
    canPush,
  );
});

it('a token ends with its time, when it is revoked, and with all others', async () => {
  const short = await tokens.mintFor(shop, { contents: 'read' }, 1_000);
  const revoked = await tokens.mintFor(shop, { contents: 'read' }, hourMs);
  const last = await tokens.mintFor(shop, { contents: 'read' }, hourMs);
  expect(last.expiresAt.getTime()).toBeGreaterThan(Date.now() + hourMs - 60_000);
  await revoked.revoke();
  await revoked.revoke();
  expect(await reads(revoked.token)).toBe(false);
  await eventually('the end', async () => !(await reads(short.token)));
  expect(Date.now()).toBeGreaterThanOrEqual(short.expiresAt.getTime());
  expect(await reads(last.token)).toBe(true);
  await tokens[Symbol.asyncDispose]();
  expect(await reads(last.token)).toBe(false);
});

it('a pull request of a token is listed, merged and closed', async () => {
  const { token } = await tokens.mintFor(
    shop,
    { contents: 'write', pull_requests: 'write' },
    hourMs,
  );
  const open = async (name: string, title: string) => {
    const head = `agent/${name}`;
    const made = await forge.api(
      ...(['POST', `/repos/${shop}/contents/${name}`] as const),
      { content: Buffer.from(name).toString('base64'), message: name, new_branch: head },
      token,
    );
    expect(made.status).toBe(201);
    return forge.api(
      ...(['POST', `/repos/${shop}/pulls`] as const),
      { title, body: 'From a test.', head, base: 'main' },
      token,
    );
  };
  expect(await open('one', 'One')).toMatchObject({ status: 201, body: { number: 1 } });
  expect(await open('two', 'WIP: Two')).toMatchObject({ status: 201, body: { number: 2 } });
  expect(await forge.pulls(shop)).toMatchObject([
    { number: 1, title: 'One', state: 'open', isDraft: false, head: 'agent/one', base: 'main' },
    { number: 2, state: 'open', isDraft: true, body: 'From a test.' },
  ]);
  await forge.mergePull(shop, 1);
  await forge.closePull(shop, 2);
  expect((await forge.pulls(shop)).map(({ state }) => state)).toEqual(['merged', 'closed']);
  await expect(forge.mergePull(shop, 2)).rejects.toThrow('404');
  // The requests outlive the user of the token.
  await tokens[Symbol.asyncDispose]();
  expect(await forge.pulls(shop)).toHaveLength(2);
});
