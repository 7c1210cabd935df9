import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { directly } from '@conversation-operator/outward/outward';
import type { ObjectStore } from '../src/object-store.ts';
import { directoryCredentials } from '../src/s3-credentials.ts';
import { createS3Store, type S3StoreOptions } from '../src/s3-store.ts';
import { startFakeS3, type FakeS3 } from './fake-s3.ts';

const errorOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  );

let folder: string;
let fake: FakeS3;
let store: ObjectStore | undefined;
const closing: (() => Promise<unknown>)[] = [];
const { env, random } = { env: { ...process.env }, random: Math.random.bind(Math) };
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 's3-credentials-'));
  fake = await startFakeS3();
  for (const id of [1, 2])
    fake.credentials.set(`KEY${id}`, {
      secretAccessKey: `secret${id}`,
      sessionToken: `token${id}`,
    });
  // Nothing of this machine.
  const none = join(folder, 'none');
  process.env = {
    ...Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('AWS_'))),
    AWS_SHARED_CREDENTIALS_FILE: none,
    AWS_CONFIG_FILE: none,
  };
  Math.random = () => 0;
});
afterEach(async () => {
  await store?.close();
  store = undefined;
  await fake[Symbol.asyncDispose]();
  await Promise.all(closing.splice(0).map((close) => close()));
  await rm(folder, { recursive: true });
  process.env = { ...env };
  Math.random = random;
});
const file = async (name: string, text: string) => {
  await writeFile(join(folder, name), text);
  return join(folder, name);
};
/** Puts an object into a bucket by these credentials. */
const put = async (options: Partial<S3StoreOptions> = {}) => {
  store ??= createS3Store({
    endpoint: fake.url,
    region: 'eu-test-1',
    bucket: fake.bucket,
    outward: directly,
    ...options,
  });
  await store.put('a', Buffer.from('b'));
};
const keysSeen = () =>
  fake.seen.map(({ headers }) => /Credential=(\w+)/.exec(headers.authorization ?? '')?.[1]);

interface Request {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}
interface Response {
  readonly status?: number;
  readonly body?: string;
  readonly isSilent?: boolean;
}
const serve = async (answer: (request: Request) => Response) => {
  const requests: Request[] = [];
  const server = createServer((incoming, response) => {
    let body = '';
    incoming.on('data', (chunk) => (body += String(chunk)));
    incoming.on('end', () => {
      const { method = '', url = '', headers } = incoming;
      const request = { method, url, headers, body };
      requests.push(request);
      const { status = 200, body: text = '', isSilent = false } = answer(request);
      if (!isSilent) response.writeHead(status).end(text);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return { requests, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
};
const expiration = () => new Date(Date.now() + 3_600_000).toISOString();

describe('credentials of files', () => {
  it('are read again when the store rejects them', async () => {
    await file('access-key-id', 'KEY1\n');
    await file('secret-access-key', 'secret1\n');
    await file('session-token', 'token1\n');
    const credentials = directoryCredentials(folder);
    await put({ credentials });
    await file('access-key-id', 'KEY2');
    await file('secret-access-key', 'secret2');
    await file('session-token', 'token2');
    await put();
    expect(keysSeen()).toEqual(['KEY1', 'KEY1']);
    fake.expired.add('KEY1');
    await put();
    expect(keysSeen()).toEqual(['KEY1', 'KEY1', 'KEY1', 'KEY2']);
  });

  it('are read again after 5 seconds', async () => {
    await file('access-key-id', 'AKIDEXAMPLE');
    await file('secret-access-key', 'the-secret+of/tests');
    await file('session-token', '');
    const source = directoryCredentials(folder);
    let ageMs = 0;
    const credentials = async () => {
      const found = await source();
      return { ...found, expiration: new Date(Number(found.expiration) - ageMs) };
    };
    ageMs = 5001;
    await put({ credentials });
    await file('access-key-id', 'KEY1');
    await file('secret-access-key', 'secret1');
    await file('session-token', 'token1');
    await put();
    expect(keysSeen()).toEqual(['AKIDEXAMPLE', 'KEY1']);
  });

  it.each<[string, Readonly<Record<string, string>>, string]>([
    ['no file', {}, 'access-key-id does not exist'],
    ['half of the files', { 'access-key-id': 'x' }, 'secret-access-key does not exist'],
    [
      'an empty file',
      { 'access-key-id': 'x', 'secret-access-key': ' ' },
      'secret-access-key contains no credential',
    ],
    [
      'a file of several lines',
      { 'access-key-id': 'x\ny: z', 'secret-access-key': 'x' },
      'access-key-id contains no credential',
    ],
    ['a large file', { 'access-key-id': 'x'.repeat(20_000) }, 'contains no credential'],
  ])('are denied for %s', async (_name, files, message) => {
    for (const [name, text] of Object.entries(files)) await file(name, text);
    expect(await errorOf(put({ credentials: directoryCredentials(folder) }))).toMatchObject({
      code: 'denied',
      message: expect.stringContaining(message) as string,
    });
    expect(fake.seen).toEqual([]);
  });
});

describe('credentials of a web identity', () => {
  const token = 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln';
  const answer = (id: number) =>
    '<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">' +
    `<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>KEY${id}</AccessKeyId>` +
    `<SecretAccessKey>secret${id}</SecretAccessKey><SessionToken>token${id}</SessionToken>` +
    `<Expiration>${expiration()}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>` +
    '</AssumeRoleWithWebIdentityResponse>';
  const failure = (code: string, message = code) =>
    `<ErrorResponse><Error><Code>${code}</Code><Message>${message}</Message></Error></ErrorResponse>`;
  const setEnvironment = async (url: string) => {
    process.env['AWS_ROLE_ARN'] = 'arn:aws:iam::1:role/x';
    process.env['AWS_WEB_IDENTITY_TOKEN_FILE'] = await file('token', token);
    process.env['AWS_ENDPOINT_URL_STS'] = url;
  };

  it('are those of the role, got again with the present token when they are rejected', async () => {
    let calls = 0;
    const sts = await serve(() => ({ body: answer((calls += 1)) }));
    await setEnvironment(sts.url);
    await put();
    await put();
    expect(sts.requests).toHaveLength(1);
    expect(Object.fromEntries(new URLSearchParams(sts.requests[0]?.body))).toMatchObject({
      Action: 'AssumeRoleWithWebIdentity',
      RoleArn: 'arn:aws:iam::1:role/x',
      WebIdentityToken: token,
    });
    fake.expired.add('KEY1');
    await file('token', 'another.token.now');
    await put();
    expect(sts.requests[1]?.body).toContain('WebIdentityToken=another.token.now');
    expect(keysSeen()).toEqual(['KEY1', 'KEY1', 'KEY1', 'KEY2']);
  });

  it.each<[string, Response, string, string]>([
    [
      'a token that has ended',
      { status: 400, body: failure('ExpiredTokenException', `The ${token} ended`) },
      'denied',
      'The security token service answers 400 ExpiredTokenException: The *** ended',
    ],
    ['a role of others', { status: 403, body: failure('AccessDenied') }, 'denied', 'AccessDenied'],
    ['a busy service', { status: 400, body: failure('Throttling') }, 'throttled', 'Throttling'],
    [
      'an issuer out of reach',
      { status: 400, body: failure('IDPCommunicationError') },
      'unavailable',
      'IDPCommunicationError',
    ],
    ['a failure', { status: 500 }, 'unavailable', 'answers 500'],
    ['another document', { body: '<html/>' }, 'denied', 'no credentials'],
    ['no document', { body: 'x'.repeat(100_000) }, 'invalid', 'too large'],
    ['silence', { isSilent: true }, 'timeout', 'has not answered within 100 ms'],
  ])('are refused for %s', async (_name, response, code, message) => {
    const sts = await serve(() => response);
    await setEnvironment(sts.url);
    const timeoutMs = 'isSilent' in response ? 100 : 60_000;
    const error = await errorOf(put({ timeoutMs }));
    expect(error).toMatchObject({ code, message: expect.stringContaining(message) as string });
    expect(fake.seen).toEqual([]);
  });

  it('are got in spite of one request without an answer', async () => {
    const sts = await serve(() =>
      sts.requests.length === 1 ? { isSilent: true } : { body: answer(1) },
    );
    await setEnvironment(sts.url);
    await put({ timeoutMs: 2000 });
    expect(sts.requests).toHaveLength(2);
    expect(keysSeen()).toEqual(['KEY1']);
  });

  it('are unavailable while the service is', async () => {
    await setEnvironment('http://127.0.0.1:1');
    expect(await errorOf(put())).toMatchObject({
      code: 'unavailable',
      message: 'The security token service can not be reached: ECONNREFUSED',
    });
  });
});

describe('credentials of a machine', () => {
  const json = () =>
    JSON.stringify({
      Code: 'Success',
      AccessKeyId: 'KEY1',
      SecretAccessKey: 'secret1',
      Token: 'token1',
      Expiration: expiration(),
    });

  it('are those of the service of a container, for the token', async () => {
    const service = await serve(() => ({ body: json() }));
    process.env['AWS_CONTAINER_CREDENTIALS_FULL_URI'] = `${service.url}/v1/credentials`;
    process.env['AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE'] = await file('token', 'a.token');
    await put();
    expect(keysSeen()).toEqual(['KEY1']);
    expect(service.requests[0]).toMatchObject({
      method: 'GET',
      url: '/v1/credentials',
      headers: { authorization: 'a.token' },
    });
  });

  it('are those of the role of an instance', async () => {
    const { url } = await serve(({ method, url: path, headers }) => {
      if (path === '/latest/api/token' && method === 'PUT') return { body: 'session' };
      if (headers['x-aws-ec2-metadata-token'] !== 'session') return { status: 401 };
      const roles = '/latest/meta-data/iam/security-credentials/';
      if (path === roles) return { body: 'a-role\n' };
      return path === `${roles}a-role` ? { body: json() } : { status: 404 };
    });
    process.env['AWS_EC2_METADATA_SERVICE_ENDPOINT'] = url;
    await put();
    expect(keysSeen()).toEqual(['KEY1']);
  });

  it.each<[string, Readonly<Record<string, string>>]>([
    ['another host', { AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://10.0.0.1/x' }],
    ['no role', { AWS_EC2_METADATA_DISABLED: 'true' }],
  ])('are denied for %s', async (_name, environment) => {
    Object.assign(process.env, environment);
    expect(await errorOf(put())).toMatchObject({
      code: 'denied',
      message: expect.stringContaining('There are no credentials of the object store') as string,
    });
    expect(fake.seen).toEqual([]);
  });
});
