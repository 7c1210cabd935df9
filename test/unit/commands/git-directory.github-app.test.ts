import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { directly } from '@conversation-operator/outward/outward';
import { gitCredentials } from '../../../src/commands/git-directory.ts';
import { readGatewayConfig } from '../../../src/config/cluster.ts';
import { githubError, startGithubApi, type GithubApi } from '../../support/github-api.ts';
import { githubAppOperations, type TokenWish } from '../../support/github-app.ts';
import { recordingLogger } from '../../support/recording-logger.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const newKey = () => {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return {
    publicKey,
    pem: (type: 'pkcs1' | 'pkcs8') => privateKey.export({ type, format: 'pem' }),
  };
};
const [first, second] = [newKey(), newKey()];
const minute = 60_000;

describe('the GitHub App of the settings', () => {
  let folder: string;
  let github: GithubApi;
  let clock: VirtualClock;
  let key: typeof first;
  let wishes: TokenWish[];
  let lifetimeMs: number;
  let stack: AsyncDisposableStack;
  const installations: Record<number, string[]> = {};
  const { logger, lines } = recordingLogger();

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'github-app-'));
    mkdirSync(join(folder, 'credentials'));
    clock = new VirtualClock();
    key = first;
    wishes = [];
    lifetimeMs = 60 * minute;
    lines.length = 0;
    stack = new AsyncDisposableStack();
    for (const id of Object.keys(installations)) Reflect.deleteProperty(installations, id);
    installations[7] = ['acme/shop', 'acme/lib'];
    installations[8] = ['other/secret'];
    write('key.pem', key.pem('pkcs1'));
    const operations = githubAppOperations({
      appId: 12,
      publicKey: () => key.publicKey,
      installations,
      mint: (wish) => {
        wishes.push(wish);
        const expiresAt = new Date(clock.now() + lifetimeMs);
        return Promise.resolve({ token: `s3cret-${wishes.length}`, expiresAt });
      },
    });
    github = await startGithubApi(operations);
  });
  afterEach(async () => {
    await stack.disposeAsync();
    await github.close();
    rmSync(folder, { recursive: true });
    expect(github.violations).toEqual([]);
    expect(JSON.stringify(lines)).not.toMatch(/s3cret|PRIVATE|eyJ/);
  });

  const write = (name: string, text: string | Buffer) => writeFileSync(join(folder, name), text);
  const credentials = (more: Record<string, string> = {}) =>
    gitCredentials(
      readGatewayConfig({
        MASTER_KEY_FILES: 'unused',
        GIT_HOSTS: '{"github":"https://github.com","gitlab":"https://gitlab.com"}',
        GIT_API_URLS: JSON.stringify({ github: github.url }),
        GIT_CREDENTIALS_DIR: join(folder, 'credentials'),
        GITHUB_APP_ID: '12',
        GITHUB_APP_PRIVATE_KEY_FILE: join(folder, 'key.pem'),
        GITHUB_APP_OWNERS: '{"alice":["acme/*"]}',
        ...more,
      }),
      { clock, logger, outward: directly },
      stack,
    );
  const messages = () => lines.map(({ message }) => message).filter((each) => /App/.test(each));

  it('gets tokens for one repository each, with the rights to push and to open pull requests', async () => {
    const app = credentials();
    expect(await app.of('alice', 'github', 'acme/shop')).toMatchObject({
      token: 's3cret-1',
      name: 'GitHub App 12',
    });
    expect(await app.of('alice', 'github', 'acme/lib')).toMatchObject({ token: 's3cret-2' });
    expect(await app.of('alice', 'github', 'acme/shop')).toMatchObject({ token: 's3cret-1' });
    const permissions = { contents: 'write', pull_requests: 'write' };
    expect(wishes).toEqual([
      { repositories: ['acme/shop'], permissions },
      { repositories: ['acme/lib'], permissions },
    ]);
    expect(github.calls.map(({ operation }) => operation)).toHaveLength(4);
    await clock.advance(56 * minute);
    expect(await app.of('alice', 'github', 'acme/shop')).toMatchObject({ token: 's3cret-3' });
  });

  it("count behind an owner's own file and before everybody's", async () => {
    const app = credentials({ GITHUB_APP_OWNERS: '{"*":["acme/*"]}' });
    write('credentials/github', 'everybody');
    write('credentials/github.bob', 'bobs');
    expect(await app.of('bob', 'github', 'acme/shop')).toMatchObject({ token: 'bobs' });
    expect(await app.of('alice', 'github', 'acme/shop')).toMatchObject({ token: 's3cret-1' });
    expect(await app.of('alice', 'github', 'other/secret')).toMatchObject({ token: 'everybody' });
    expect(await app.of('alice', 'github')).toMatchObject({ token: 'everybody' });
    // The App is not installed there, and everybody's may open more.
    expect(await app.of('alice', 'github', 'acme/else')).toBeUndefined();
  });

  it('serve no owner whom the settings do not name, and say so at the start', async () => {
    const app = credentials({ GITHUB_APP_OWNERS: '' });
    expect(messages()).toEqual([
      'the GitHub App serves no owner, because GITHUB_APP_OWNERS names none',
    ]);
    expect(await app.of('alice', 'github', 'acme/shop')).toBeUndefined();
    expect(github.calls).toEqual([]);
  });

  it('never reach the repositories of another organization', async () => {
    const app = credentials();
    expect(await app.of('alice', 'github', 'other/secret')).toBeUndefined();
    expect(await app.of('mallory', 'github', 'acme/shop')).toBeUndefined();
    expect(github.calls).toEqual([]);
  });

  it('use a new key from the next token on, without a restart', async () => {
    const app = credentials();
    await app.of('alice', 'github', 'acme/shop');
    key = second;
    expect(await app.of('alice', 'github', 'acme/lib')).toBeUndefined();
    expect(messages()).toEqual(['the GitHub App gets no tokens']);
    write('key.pem', second.pem('pkcs8'));
    await clock.advance(10_000);
    expect(await app.of('alice', 'github', 'acme/lib')).toMatchObject({ token: 's3cret-2' });
    expect(messages()).toEqual([
      'the GitHub App gets no tokens',
      'the GitHub App gets tokens again',
    ]);
  });

  it('are withheld while the key can not be read', async () => {
    const app = credentials();
    write('credentials/github', 'everybody');
    for (const text of ['no key', first.pem('pkcs1').slice(0, 400)]) {
      write('key.pem', text);
      expect(await app.of('alice', 'github', 'acme/shop')).toBeUndefined();
    }
    rmSync(join(folder, 'key.pem'));
    await clock.advance(10_000);
    expect(await app.of('alice', 'github', 'acme/shop')).toBeUndefined();
    expect(github.calls).toEqual([]);
    expect(messages()).toEqual(['the GitHub App gets no tokens']);
  });

  it.each([
    ['is down', githubError(502, 'Bad Gateway'), 'unavailable'],
    ['limits the rate', githubError(403, 'x', { 'x-ratelimit-remaining': '0' }), 'busy'],
    ['limits the rate in another way', githubError(429, 'x'), 'busy'],
    ['does not know the App', githubError(401, 'Bad credentials'), 'denied'],
    ['answers nonsense', { status: 200, body: { id: 'none' } }, 'unavailable'],
  ])('are withheld while GitHub %s', async (_sentence, outage, code) => {
    const app = credentials();
    write('credentials/github', 'everybody');
    github.outage = outage;
    expect(await app.of('alice', 'github', 'acme/shop')).toBeUndefined();
    expect(lines).toMatchObject([{ level: 'error', fields: { appId: '12', code } }]);
    github.outage = undefined;
    await clock.advance(minute);
    expect(await app.of('alice', 'github', 'acme/shop')).toMatchObject({ token: 's3cret-1' });
  });

  it.each([
    ['is down', githubError(500, 'x'), 'the GitHub App gets no tokens'],
    ['is suspended', githubError(403, 'x'), 'the GitHub App gets no token for a repository'],
    ['lacks a right', githubError(422, 'x'), 'the GitHub App gets no token for a repository'],
    ['is gone', githubError(404, 'x'), 'the GitHub App gets no token for a repository'],
    [
      'would open all repositories',
      {
        status: 201,
        body: {
          token: 's3cret',
          expires_at: '2030-01-01T01:00:00Z',
          permissions: {},
          repository_selection: 'all',
        },
      },
      'the GitHub App gets no tokens',
    ],
    ['is no token', { status: 201, body: 's3cret' }, 'the GitHub App gets no tokens'],
    [
      'redirects',
      { status: 307, headers: { location: '/elsewhere' } },
      'the GitHub App gets no tokens',
    ],
    ['is huge', { status: 201, body: 's3cret'.repeat(1_000_000) }, 'the GitHub App gets no tokens'],
  ])('are withheld where the installation %s', async (_sentence, outage, message) => {
    const app = credentials();
    // The installation is known when the token is asked for.
    lifetimeMs = 0;
    expect(await app.of('alice', 'github', 'acme/shop')).toMatchObject({ token: 's3cret-1' });
    github.outage = outage;
    expect(await app.of('alice', 'github', 'acme/shop')).toBeUndefined();
    expect(messages()).toEqual([message]);
    expect(github.calls.map(({ operation }) => operation.split(' ')[0])).toEqual([
      'GET',
      'POST',
      'POST',
    ]);
  });

  it('need a key that can be read and used at the start', () => {
    expect(() => credentials({ GITHUB_APP_PRIVATE_KEY_FILE: join(folder, 'none') })).toThrow(
      /^GITHUB_APP_PRIVATE_KEY_FILE: .*none can't be read \(ENOENT\)$/,
    );
    const elliptic = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    for (const text of ['s3cret', elliptic.export({ type: 'pkcs8', format: 'pem' })]) {
      write('key.pem', text);
      expect(() => credentials()).toThrow(
        /^GITHUB_APP_PRIVATE_KEY_FILE: .*key\.pem has no private RSA key as PEM$/,
      );
    }
  });

  it('need a provider of the web', () => {
    expect(() => credentials({ GIT_HOSTS: '{"github":"file:///srv"}', GIT_API_URLS: '' })).toThrow(
      'GITHUB_APP_PROVIDER: GIT_HOSTS has no http or https URL for it',
    );
  });
});
