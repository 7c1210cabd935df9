import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@conversation-operator/base/clock';
import { createS3Store } from '@conversation-operator/object-store/s3-store';
import { SandboxKeys } from '../../src/agent/keys.ts';
import { openArchive } from '../../src/commands/archive.ts';
import { gitCredentials, gitDirectory } from '../../src/commands/git-directory.ts';
import { withOutward, type OutwardRuntime } from '../../src/commands/outward.ts';
import { archiveConfigOf } from '../../src/config/archive.ts';
import { readGatewayConfig, type GatewayConfig } from '../../src/config/cluster.ts';
import { newGithubAppClient } from '../../src/gateway/git/github-app-client.ts';
import { newHostApis } from '../../src/gateway/git/host-api/host-apis.ts';
import { PrivateHost } from '../../src/gateway/git/private-host.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import { startFakeS3, type FakeS3 } from '../../packages/object-store/test/fake-s3.ts';
import { GitServer } from '../support/git-server.ts';
import { startJsonHost, type JsonHost } from '../support/json-host.ts';
import { startOutside, type Outside } from '../support/outside.ts';
import { privateAuthority } from '../support/private-authority.ts';
import { recordingLogger } from '../support/recording-logger.ts';

// Names that only the proxy can resolve, and certificates of an authority that only the file has.
const names = ['git', 'api', 's3', 'sts'].map((name) => `${name}.example.test`);
const authority = privateAuthority(names);
const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});
const secrets = ['forge-t0ken', 'ghs_s3cret', 's3-s3cret', 'web.identity.token', 'AKIDOUTSIDE'];
const credentials = { 'access-key-id': 'AKIDOUTSIDE', 'secret-access-key': 's3-s3cret' };
const { logger, lines } = recordingLogger();

let folder: string;
let git: GitServer;
let api: JsonHost;
let s3: FakeS3;
let proxy: Outside;
let config: GatewayConfig;
let runtime: OutwardRuntime;
const world = new AsyncDisposableStack();
let stack: AsyncDisposableStack;

/** A security token service, which reads no request. */
async function startSts(): Promise<string> {
  const fields = Object.entries({
    AccessKeyId: 'KEY',
    SecretAccessKey: 'secret',
    SessionToken: 'token',
    Expiration: new Date(Date.now() + 3_600_000).toISOString(),
  });
  const xml = fields.map(([name, value]) => `<${name}>${value}</${name}>`).join('');
  const [open, close] = ['<', '</'].map((bracket) =>
    ['AssumeRoleWithWebIdentityResponse', 'AssumeRoleWithWebIdentityResult', 'Credentials'].map(
      (name) => `${bracket}${name}>`,
    ),
  );
  const body = `${open?.join('')}${xml}${close?.toReversed().join('')}`;
  const server = createServer((request, response) => {
    request.resume();
    response.end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  world.defer(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'outward-'));
  world.defer(() => rmSync(folder, { recursive: true, force: true }));
  git = await GitServer.start({
    repositories: { 'acme/secret': {} },
    readers: { 'acme/secret': ['x-access-token:forge-t0ken'] },
  });
  world.defer(() => git.stop());
  api = await startJsonHost(({ target }) => {
    if (target.endsWith('/installation')) return { body: { id: 7 } };
    if (!target.endsWith('/access_tokens'))
      return { body: { id: 1, full_name: 'acme/secret', default_branch: 'main' } };
    return {
      status: 201,
      headers: { 'content-type': 'application/json' },
      body: {
        token: 'ghs_s3cret',
        expires_at: '2036-03-01T13:00:00Z',
        permissions: {},
        repository_selection: 'selected',
        repositories: [{ name: 'secret' }],
      },
    };
  });
  world.defer(() => api.close());
  s3 = world.use(await startFakeS3());
  s3.credentials.set('AKIDOUTSIDE', { secretAccessKey: 's3-s3cret' });
  s3.credentials.set('KEY', { secretAccessKey: 'secret', sessionToken: 'token' });
  s3.credentials.set('OWN', { secretAccessKey: 'x', sessionToken: 'y' });
  const sts = await startSts();
  proxy = await startOutside({
    authority,
    https: {
      'git.example.test': git.url,
      'api.example.test': api.url,
      's3.example.test': s3.url,
      'sts.example.test': sts,
    },
    user: 'proxy-user:pr0xy-p4ss',
  });
  world.use(proxy);
  for (const name of ['git', 's3']) mkdirSync(join(folder, name));
  writeFileSync(join(folder, 'ca.crt'), authority.ca);
  writeFileSync(join(folder, 'git', 'github'), 'forge-t0ken');
  writeFileSync(join(folder, 'token'), 'web.identity.token');
  for (const [name, text] of Object.entries(credentials))
    writeFileSync(join(folder, 's3', name), text);
});
afterAll(() => world.disposeAsync());

beforeEach(() => {
  stack = new AsyncDisposableStack();
  lines.length = 0;
  proxy.refusal = undefined;
  proxy.requests.length = 0;
  config = readGatewayConfig({
    MASTER_KEY_FILES: 'unused',
    HTTPS_PROXY: 'http://unused.example.test:1',
    https_proxy: `http://proxy-user:pr0xy-p4ss@127.0.0.1:${proxy.port}`,
    TRUST_FILE: join(folder, 'ca.crt'),
    GIT_HOSTS: '{"github":"https://git.example.test"}',
    GIT_API_URLS: '{"github":"https://api.example.test/api/v3"}',
    GIT_CREDENTIALS_DIR: join(folder, 'git'),
    ARCHIVE_S3_BUCKET: s3.bucket,
    ARCHIVE_S3_ENDPOINT: 'https://s3.example.test:9000',
    ARCHIVE_S3_REGION: 'eu-test-1',
    ARCHIVE_S3_CREDENTIALS_DIR: join(folder, 's3'),
  });
  const metrics = createMetrics();
  runtime = withOutward(config, { clock: systemClock, random: () => 0, logger, metrics });
});
afterEach(() => stack.disposeAsync());

/** Gets an object with credentials of the environment, and returns their access key. */
async function keyOfEnvironment(
  { outward }: Pick<OutwardRuntime, 'outward'>,
  environment: Readonly<Record<string, string>>,
): Promise<unknown> {
  const before = { ...process.env };
  stack.defer(() => void (process.env = before));
  Object.assign(process.env, environment);
  const store = createS3Store({
    endpoint: s3.url,
    region: 'eu-test-1',
    bucket: s3.bucket,
    timeoutMs: 5000,
    outward,
  });
  stack.defer(() => store.close());
  await store.get('none');
  return /Credential=(\w+)/.exec(s3.seen.at(-1)?.headers.authorization ?? '')?.[1];
}

/** The calls of a gateway and an operator to hosts outside the cluster, each with its result. */
const calls: Readonly<Record<string, () => Promise<unknown>>> = {
  'the check of a repository': async () => {
    const known = gitDirectory(config, gitCredentials(config, runtime, stack), runtime, stack);
    const wish = { owner: 'alice', provider: 'github', repository: 'acme/secret' };
    return known.gitDirectory?.access({ ...wish, branch: undefined });
  },
  'the relay of git': async () => {
    const host = new PrivateHost({
      hosts: config.GIT_HOSTS,
      connections: 2,
      ...runtime,
      credentials: gitCredentials(config, runtime, stack),
    });
    stack.defer(() => host.close());
    const wanted = {
      owner: 'alice',
      provider: 'github',
      repository: 'acme/secret',
      headers: {},
      service: 'git-upload-pack' as const,
      relaysOpen: true,
      signal: AbortSignal.timeout(20_000),
    };
    const answer = await host.advertisement(wanted);
    if (answer.kind !== 'stream') return answer;
    const bytes = Buffer.concat(await Array.fromAsync(answer.stream.body));
    return bytes.includes('refs/heads/main');
  },
  'the API of the host': async () => {
    const { GIT_HOSTS: hosts, GIT_API_URLS: apiUrls } = config;
    const apis = newHostApis({ hosts, apiUrls, outward: runtime.outward });
    stack.defer(() => apis.close());
    const { signal } = new AbortController();
    const target = { repository: 'acme/secret', token: 'forge-t0ken', signal };
    return apis.of('github')?.repository(target);
  },
  'the GitHub App': async () => {
    const app = newGithubAppClient({
      appId: '7',
      apiUrl: new URL('https://api.example.test/api/v3'),
      privateKey: () => Promise.resolve(privateKey),
      outward: runtime.outward,
    });
    stack.defer(() => app.close());
    return (await app.mint(7, 'acme/secret')).token;
  },
  'the store': async () => {
    const keys = new SandboxKeys([Buffer.alloc(32, 7)]);
    const archive = openArchive(archiveConfigOf(config), keys, runtime, stack);
    await archive?.store.put('a', Buffer.from('b'));
    return (await archive?.store.get('a'))?.toString();
  },
  'the security token service': () => {
    const environment = {
      AWS_ROLE_ARN: 'arn:aws:iam::1:role/x',
      AWS_WEB_IDENTITY_TOKEN_FILE: join(folder, 'token'),
      AWS_ENDPOINT_URL_STS: 'https://sts.example.test',
    };
    return keyOfEnvironment(runtime, environment);
  },
};
const call = (name: string) => calls[name]?.();

it.each([
  ['the check of a repository', 'granted', 'git.example.test:443'],
  ['the relay of git', true, 'git.example.test:443'],
  ['the API of the host', { name: 'acme/secret', defaultBranch: 'main' }, 'api.example.test:443'],
  ['the GitHub App', 'ghs_s3cret', 'api.example.test:443'],
  ['the store', 'b', 's3.example.test:9000'],
  ['the security token service', 'KEY', 'sts.example.test:443'],
])('%s goes by the proxy, with the certificates of the file', async (name, result, host) => {
  expect(await call(name)).toEqual(result);
  expect(new Set(proxy.requests)).toEqual(new Set([`CONNECT ${host}`]));
});

it.each([
  ['the relay of git', 407, { kind: 'failed', reason: 'PROXY_AUTHENTICATION' }],
  ['the relay of git', 403, { kind: 'failed', reason: 'PROXY_REFUSED' }],
])('%s names the proxy that answers %i', async (name, status, expected) => {
  proxy.refusal = status;
  expect(await call(name)).toEqual(expected);
});

it.each(['the API of the host', 'the GitHub App', 'the store', 'the security token service'])(
  'the error of %s names the proxy that refuses its user',
  async (name) => {
    proxy.refusal = 407;
    const error = await Promise.resolve(call(name)).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('The proxy answers 407') as string,
    });
    expect(String(error)).not.toMatch(/pr0xy-p4ss|127\.0\.0\.1/);
  },
);

it('a check of a repository leaves the decision to the clone, and the log has the reason', async () => {
  proxy.refusal = 403;
  expect(await call('the check of a repository')).toBe('unknown');
  expect(lines.find(({ level }) => level === 'warn')?.fields).toMatchObject({
    reason: 'PROXY_REFUSED',
  });
});

it('credentials of a container and of an instance never come by the proxy', async () => {
  const plain = withOutward(
    { ...config, http_proxy: `http://127.0.0.1:${proxy.port}`, no_proxy: 'none.example.test' },
    runtime,
  );
  const service = createServer((_request, response) =>
    response.end(
      JSON.stringify({
        AccessKeyId: 'OWN',
        SecretAccessKey: 'x',
        Token: 'y',
        Expiration: new Date(Date.now() + 3_600_000).toISOString(),
      }),
    ),
  );
  service.listen(0, '127.0.0.1');
  await once(service, 'listening');
  stack.defer(() => void service.close());
  const url = `http://127.0.0.1:${(service.address() as AddressInfo).port}/v1`;
  expect(await keyOfEnvironment(plain, { AWS_CONTAINER_CREDENTIALS_FULL_URI: url })).toBe('OWN');
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
  const instance = { AWS_EC2_METADATA_SERVICE_ENDPOINT: 'http://metadata.example.test' };
  await expect(keyOfEnvironment(plain, instance)).rejects.toThrow('There are no credentials');
  expect(proxy.requests).toEqual([]);
});

it('the proxy sees no credential, and the log none of the proxy', async () => {
  for (const name of Object.keys(calls)) await call(name);
  const bytes = proxy.bytes();
  expect(bytes).toContain('CONNECT git.example.test:443');
  for (const secret of secrets) {
    expect(bytes).not.toContain(secret);
    expect(bytes).not.toContain(Buffer.from(secret).toString('base64'));
  }
  expect(bytes.toLowerCase().replaceAll('proxy-authorization', '')).not.toContain('authorization');
  expect(lines[0]).toEqual({
    level: 'info',
    message: 'hosts outside the cluster are called',
    fields: {
      httpsProxy: `http://127.0.0.1:${proxy.port}`,
      httpProxy: 'none',
      noProxy: '',
      trustedCertificates: 1,
    },
  });
  expect(JSON.stringify(lines)).not.toContain('pr0xy-p4ss');
});
