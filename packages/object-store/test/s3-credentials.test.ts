import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { directly } from '@conversation-operator/outward/outward';
import {
  cachedCredentials,
  credentialsFromEnvironment,
  type Credentials,
  type EnvironmentOptions,
} from '../src/s3-credentials.ts';
import { StoreError } from '../src/object-store.ts';
import { stsUrl } from '../src/service-credentials.ts';
import { codeOf } from './store-contract.ts';

const credentialsOf = (options: Omit<EnvironmentOptions, 'outward'>) =>
  credentialsFromEnvironment({ ...options, outward: directly });

const minutes = 60_000;
const startMs = Date.UTC(2030, 0, 1);

/** A clock that a test moves; timers are those of the system. */
function movingClock() {
  let passedMs = 0;
  return {
    ...systemClock,
    now: () => startMs + passedMs,
    monotonic: () => passedMs,
    move: (byMs: number) => void (passedMs += byMs),
  } satisfies Clock & { move(byMs: number): void };
}

const credentials = (id: number, expiresAtMs?: number): Credentials => ({
  accessKeyId: `KEY${id}`,
  secretAccessKey: `secret${id}`,
  ...(expiresAtMs !== undefined && { sessionToken: `token${id}`, expiresAtMs }),
});

/** Whatever is ready to run has run. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

describe('cached credentials', () => {
  const cacheOf = (provide: (calls: number) => Promise<Credentials>) => {
    const clock = movingClock();
    let calls = 0;
    const provider = () => provide((calls += 1));
    const source = cachedCredentials({ provider, clock, random: () => 0 });
    return { clock, source, calls: () => calls };
  };
  const endsAfter = (ms: number, clock: Clock) => clock.now() + ms;

  it('are got once for all calls, and once more 5 minutes before their end', async () => {
    const { clock, source, calls } = cacheOf((id) =>
      Promise.resolve(credentials(id, endsAfter(60 * minutes, clock))),
    );
    const first = await Promise.all([source(), source(), source()]);
    expect(new Set(first).size).toBe(1);
    clock.move(54.9 * minutes);
    expect(await source()).toBe(first[0]);
    await settle();
    expect(calls()).toBe(1);
    clock.move(0.2 * minutes);
    expect(await source()).toBe(first[0]);
    await settle();
    expect(await source()).toMatchObject({ accessKeyId: 'KEY2' });
    expect(calls()).toBe(2);
  });

  it('are in use until their end when their renewal fails, which is repeated seldom', async () => {
    const { clock, source, calls } = cacheOf((id) =>
      id === 1
        ? Promise.resolve(credentials(id, endsAfter(60 * minutes, clock)))
        : Promise.reject(new StoreError('unavailable', 'no service')),
    );
    const first = await source();
    clock.move(56 * minutes);
    for (const found of await Promise.all([source(), source(), source()]))
      expect(found).toBe(first);
    await settle();
    expect(await source()).toBe(first);
    await settle();
    expect(calls()).toBe(2);
    clock.move(5000);
    expect(await source()).toBe(first);
    await settle();
    expect(calls()).toBe(3);
    clock.move(4 * minutes);
    expect(await codeOf(source())).toBe('unavailable');
    expect(calls()).toBe(4);
  });

  it('of a short life are renewed in the second half of it', async () => {
    const { clock, source, calls } = cacheOf((id) =>
      Promise.resolve(credentials(id, endsAfter(2 * minutes, clock))),
    );
    await source();
    clock.move(0.9 * minutes);
    await source();
    await settle();
    expect(calls()).toBe(1);
    clock.move(0.2 * minutes);
    await source();
    await settle();
    expect(calls()).toBe(2);
  });

  it('that were rejected are replaced once for all calls', async () => {
    const { source, calls } = cacheOf((id) => Promise.resolve(credentials(id)));
    const first = await source();
    const next = await Promise.all([source(first), source(first), source(first)]);
    expect(new Set(next.map(({ accessKeyId }) => accessKeyId))).toEqual(new Set(['KEY2']));
    expect(await source(first)).toBe(next[0]);
    expect(calls()).toBe(2);
  });

  it('are got again after a failure', async () => {
    const { source } = cacheOf((id) =>
      id === 1
        ? Promise.reject(new StoreError('unavailable', 'no service'))
        : Promise.resolve(credentials(id)),
    );
    expect(await Promise.all([codeOf(source()), codeOf(source())])).toEqual([
      ...['unavailable', 'unavailable'],
    ]);
    expect(await source()).toMatchObject({ accessKeyId: 'KEY2' });
  });

  it('that have ended are none', async () => {
    const { source } = cacheOf((id) => Promise.resolve(credentials(id, startMs - 1)));
    expect(await codeOf(source())).toBe('unavailable');
  });
});

describe('credentials of the environment', () => {
  let folder: string;
  let clock: ReturnType<typeof movingClock>;
  const closing: (() => Promise<unknown>)[] = [];
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 's3-credentials-'));
    clock = movingClock();
  });
  afterEach(async () => {
    await Promise.all(closing.splice(0).map((close) => close()));
    await rm(folder, { recursive: true });
  });

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
  const file = async (name: string, text: string) => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  const expiration = new Date(startMs + 60 * minutes).toISOString();
  const json = (id: number, more: object = {}) =>
    JSON.stringify({
      AccessKeyId: `KEY${id}`,
      SecretAccessKey: `secret${id}`,
      Token: `token${id}`,
      Expiration: expiration,
      ...more,
    });
  const expected = (id: number) => credentials(id, startMs + 60 * minutes);
  const errorOf = async (call: Promise<unknown>): Promise<unknown> =>
    call.then(
      () => undefined,
      (error: unknown) => error,
    );

  describe('of files', () => {
    it('are read again when they change, or are rejected', async () => {
      await file('access-key-id', 'KEY1\n');
      await file('secret-access-key', 'secret1\n');
      const source = credentialsOf({ directory: folder, environment: {}, clock });
      const first = await source();
      expect(first).toEqual(credentials(1));
      clock.move(6000);
      expect(await source()).toBe(first);
      await file('access-key-id', 'KEY2');
      await file('secret-access-key', 'secret2');
      await file('session-token', 'token2');
      expect(await source()).toBe(first);
      clock.move(6000);
      const second = await source();
      expect(second).toEqual({ ...credentials(2), sessionToken: 'token2' });
      await file('access-key-id', 'KEY3');
      expect(await source(second)).toMatchObject({ accessKeyId: 'KEY3' });
    });

    it('are those of one version of a mounted Secret', async () => {
      const version = async (id: number) => {
        await mkdir(join(folder, `..${id}`));
        await file(`..${id}/access-key-id`, `KEY${id}`);
        await file(`..${id}/secret-access-key`, `secret${id}`);
        await symlink(`..${id}`, join(folder, `..next`));
        await rename(join(folder, `..next`), join(folder, '..data'));
      };
      await version(1);
      for (const name of ['access-key-id', 'secret-access-key'])
        await symlink(`..data/${name}`, join(folder, name));
      const source = credentialsOf({ directory: folder, environment: {}, clock });
      let last = await source();
      for (let id = 2; id < 60; id += 1) {
        [last] = await Promise.all([source(last), version(id)]);
        expect([credentials(id - 1), credentials(id)]).toContainEqual(last);
      }
      expect(await source(last)).toEqual(credentials(59));
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
      ['a large file', { 'access-key-id': 'x'.repeat(20_000) }, 'access-key-id is larger than'],
    ])('are denied for %s', async (_name, files, message) => {
      for (const [name, text] of Object.entries(files)) await file(name, text);
      const source = credentialsOf({ directory: folder, environment: {}, clock });
      const error = await errorOf(source());
      expect(error).toMatchObject({
        code: 'denied',
        message: expect.stringContaining(message) as string,
      });
    });
  });

  describe('of a web identity', () => {
    const answer = (id: number) =>
      '<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">' +
      `<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>KEY${id}</AccessKeyId>` +
      `<SecretAccessKey>secret${id}</SecretAccessKey><SessionToken>token${id}</SessionToken>` +
      `<Expiration>${expiration}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>` +
      '</AssumeRoleWithWebIdentityResponse>';
    const environmentOf = async (url: string) => ({
      AWS_ROLE_ARN: 'arn:aws:iam::1:role/x',
      AWS_WEB_IDENTITY_TOKEN_FILE: await file('token', 'header.claims.signature\n'),
      AWS_ENDPOINT_URL_STS: url,
    });

    it('are those of the role', async () => {
      const sts = await serve(() => ({ body: answer(1) }));
      const environment = await environmentOf(sts.url);
      const source = credentialsOf({ environment, clock });
      expect(await source()).toEqual(expected(1));
      const [request] = sts.requests;
      expect(request?.method).toBe('POST');
      expect(Object.fromEntries(new URLSearchParams(request?.body))).toEqual({
        Action: 'AssumeRoleWithWebIdentity',
        Version: '2011-06-15',
        RoleArn: 'arn:aws:iam::1:role/x',
        RoleSessionName: 'conversation-operator',
        WebIdentityToken: 'header.claims.signature',
        DurationSeconds: '3600',
      });
      await file('token', 'another.token.now');
      await source(await source());
      expect(sts.requests[1]?.body).toContain('WebIdentityToken=another.token.now');
    });

    const failure = (code: string, message = code) =>
      `<ErrorResponse><Error><Code>${code}</Code><Message>${message}</Message></Error></ErrorResponse>`;
    it.each<[string, Response, string, string]>([
      [
        'a token that has ended',
        {
          status: 400,
          body: failure('ExpiredTokenException', 'The header.claims.signature ended'),
        },
        'denied',
        'The security token service answers 400: ExpiredTokenException: The *** ended',
      ],
      [
        'a role of others',
        { status: 403, body: failure('AccessDenied') },
        'denied',
        'AccessDenied',
      ],
      ['a busy service', { status: 400, body: failure('Throttling') }, 'throttled', 'Throttling'],
      [
        'an issuer out of reach',
        { status: 400, body: failure('IDPCommunicationError') },
        'unavailable',
        'IDPCommunicationError',
      ],
      ['a failure', { status: 500 }, 'unavailable', 'answers 500'],
      ['another document', { body: '<html/>' }, 'unavailable', 'no valid credentials'],
      ['no document', { body: 'x'.repeat(100_000) }, 'unavailable', 'no valid credentials'],
      ['silence', { isSilent: true }, 'timeout', 'has not answered within 100 ms'],
    ])('are refused for %s', async (_name, response, code, message) => {
      const sts = await serve(() => response);
      const environment = await environmentOf(sts.url);
      const timeoutMs = 'isSilent' in response ? 100 : 60_000;
      const source = credentialsOf({ environment, clock, timeoutMs });
      expect(await errorOf(source())).toMatchObject({
        code,
        message: expect.stringContaining(message) as string,
      });
    });

    it('are denied without the file of the token', async () => {
      const environment = { ...(await environmentOf('http://127.0.0.1:1')) };
      await rm(environment.AWS_WEB_IDENTITY_TOKEN_FILE);
      expect(await codeOf(credentialsOf({ environment, clock })())).toBe('denied');
    });

    it('are unavailable while the service is', async () => {
      const environment = await environmentOf('http://127.0.0.1:1');
      expect(await errorOf(credentialsOf({ environment, clock })())).toMatchObject({
        code: 'unavailable',
        message: 'The security token service can not be reached: ECONNREFUSED',
      });
    });

    it.each([
      [{}, undefined, 'https://sts.amazonaws.com/'],
      [{}, 'eu-x-1', 'https://sts.eu-x-1.amazonaws.com/'],
      [{ AWS_REGION: 'cn-x-1' }, undefined, 'https://sts.cn-x-1.amazonaws.com.cn/'],
      [{ AWS_DEFAULT_REGION: 'us-x-1' }, undefined, 'https://sts.us-x-1.amazonaws.com/'],
      [{ AWS_STS_REGIONAL_ENDPOINTS: 'legacy' }, 'eu-x-1', 'https://sts.amazonaws.com/'],
    ])('with %j and the region %s come from %s', (environment, region, url) => {
      expect(stsUrl({ environment, region }).href).toBe(url);
    });
  });

  describe('of a container', () => {
    it('are those of the service that the environment names, for the token', async () => {
      const service = await serve(() => ({ body: json(1) }));
      const environment = {
        AWS_CONTAINER_CREDENTIALS_FULL_URI: `${service.url}/v1/credentials`,
        AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: await file('token', 'a.token'),
      };
      expect(await credentialsOf({ environment, clock })()).toEqual(expected(1));
      expect(service.requests[0]).toMatchObject({
        method: 'GET',
        url: '/v1/credentials',
        headers: { authorization: 'a.token' },
      });
    });

    it.each<[string, Readonly<Record<string, string>>, string]>([
      ['another host', { AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://10.0.0.1/x' }, 'invalid'],
      [
        'a host that begins like loopback',
        { AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://127.0.0.1.example/x' },
        'invalid',
      ],
      [
        'another address',
        { AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://169.254.169.254/' },
        'invalid',
      ],
      ['no URL', { AWS_CONTAINER_CREDENTIALS_FULL_URI: 'x' }, 'invalid'],
      [
        'a token of several lines',
        {
          AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://127.0.0.1:1/',
          AWS_CONTAINER_AUTHORIZATION_TOKEN: 'x\r\ny: z',
        },
        'denied',
      ],
      [
        'no file of a token',
        {
          AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://127.0.0.1:1/',
          AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: '/does/not/exist',
        },
        'denied',
      ],
    ])('are refused for %s', async (_name, environment, code) => {
      expect(await codeOf(credentialsOf({ environment, clock })())).toBe(code);
    });

    it.each<[Response, string]>([
      [{ status: 401 }, 'denied'],
      [{ status: 429 }, 'throttled'],
      [{ status: 503 }, 'unavailable'],
      [{ status: 302 }, 'denied'],
      [{ body: 'no JSON' }, 'unavailable'],
      [{ body: '[]' }, 'unavailable'],
      [{ body: json(1, { Expiration: 'soon' }) }, 'unavailable'],
      [{ body: json(1, { Token: 'x\ny' }) }, 'unavailable'],
    ])('are refused for the answer %j', async (response, code) => {
      const service = await serve(() => response);
      const environment = { AWS_CONTAINER_CREDENTIALS_FULL_URI: service.url };
      expect(await codeOf(credentialsOf({ environment, clock })())).toBe(code);
    });
  });

  describe('of an instance', () => {
    const metadata = (role: Response) =>
      serve(({ method, url, headers }) => {
        if (url === '/latest/api/token')
          return method === 'PUT' && headers['x-aws-ec2-metadata-token-ttl-seconds'] === '300'
            ? { body: 'session' }
            : { status: 400 };
        if (headers['x-aws-ec2-metadata-token'] !== 'session') return { status: 401 };
        const roles = '/latest/meta-data/iam/security-credentials/';
        if (url === roles) return role;
        return url === `${roles}a-role` ? { body: json(1) } : { status: 404 };
      });

    it('are those of its role, for a token', async () => {
      const { url } = await metadata({ body: 'a-role\n' });
      const source = credentialsOf({ environment: {}, metadataUrl: url, clock });
      expect(await source()).toEqual(expected(1));
      const environment = { AWS_EC2_METADATA_SERVICE_ENDPOINT: `${url}/` };
      expect(await credentialsOf({ environment, clock })()).toEqual(expected(1));
    });

    it.each<[string, Response, string]>([
      ['no role', { status: 404 }, 'denied'],
      ['a role that is a path', { body: '../x' }, 'denied'],
      ['a failure', { status: 500 }, 'unavailable'],
    ])('are refused for %s', async (_name, role, code) => {
      const { url } = await metadata(role);
      const source = credentialsOf({ environment: {}, metadataUrl: url, clock });
      expect(await codeOf(source())).toBe(code);
    });

    it('are none where the service is disabled', async () => {
      const environment = { AWS_EC2_METADATA_DISABLED: 'true' };
      expect(await errorOf(credentialsOf({ environment, clock })())).toMatchObject({
        code: 'denied',
        message: 'There are no credentials of the object store in the environment',
      });
    });
  });

  it('are taken from the first source that there is', async () => {
    const service = await serve(({ url }) => ({ status: 403, body: url }));
    const errors: unknown[] = [];
    let environment: Readonly<Record<string, string>> = {
      AWS_ROLE_ARN: 'arn:aws:iam::1:role/x',
      AWS_WEB_IDENTITY_TOKEN_FILE: await file('token', 'x'),
      AWS_ENDPOINT_URL_STS: `${service.url}/sts`,
      AWS_CONTAINER_CREDENTIALS_FULL_URI: `${service.url}/container`,
      AWS_EC2_METADATA_SERVICE_ENDPOINT: `${service.url}/instance`,
    };
    const attempt = async (directory?: string) => {
      const source = credentialsOf({ directory, environment, clock });
      errors.push(await codeOf(source()));
    };
    await attempt(folder);
    await attempt();
    const { AWS_ROLE_ARN: _role, ...withoutRole } = environment as Record<string, string>;
    environment = withoutRole;
    await attempt();
    const { AWS_CONTAINER_CREDENTIALS_FULL_URI: _uri, ...instance } = withoutRole;
    environment = instance;
    await attempt();
    expect(errors).toEqual(['denied', 'denied', 'denied', 'denied']);
    expect(service.requests.map(({ url }) => url)).toEqual([
      ...['/sts', '/container', '/instance/latest/api/token'],
    ]);
  });
});
