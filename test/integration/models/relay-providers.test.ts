import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { eventually } from '../../support/eventually.ts';
import { HeldClock } from '../../support/held-clock.ts';
import { privateAuthority } from '../../support/private-authority.ts';
import type { Behaviour } from '../../support/models/charging-provider.ts';
import {
  apiNames,
  askModel,
  maxOf,
  refusalIn,
  type Access,
  type ApiName,
} from '../../support/models/agent-call.ts';
import { modelKey, RelayScene } from '../../support/models/relay-scene.ts';

const [idleMs, totalMs] = [600_000, 3_600_000];
let clock: HeldClock;
let scene: RelayScene;
let alice: Access;
beforeEach(async () => {
  clock = new HeldClock(idleMs, totalMs);
  scene = await RelayScene.start({ clock });
  scene.budget(1);
  alice = scene.conversation();
});
afterEach(async () => {
  expect(clock.held).toBe(0);
  await scene[Symbol.asyncDispose]();
  expect(scene.provider.underWay).toBe(0);
});

const json = { 'content-type': 'application/json' };
const small = (api: ApiName) => askModel(alice, api, { fields: maxOf(api, 50) });
const agentOf = (baseUrl: string) => ({
  agent: { port: 8000, workingDir: '/', model: 'openai/m', baseUrl, credential: 'platform' },
});

/** A server that answers each connection with these bytes, once a request has come. */
async function rawProvider(bytes: string, ends = true): Promise<Server & AsyncDisposable> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
    socket.once('data', () => {
      socket.write(Buffer.from(bytes, 'latin1'));
      if (ends) socket.end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(server, {
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  });
}
const urlOf = (server: Server): string =>
  `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

/** Faults of a provider, the answer that the agent gets, and whether the call may be charged. */
const faults: readonly (readonly [
  what: string,
  behaviour: Behaviour,
  status: number,
  says: RegExp,
  isCharged?: 'charged',
])[] = [
  ['redirects', { fault: 'redirect' }, 503, /redirects with status 307/],
  ['closes the connection', { fault: 'reset' }, 503, /has closed the connection/, 'charged'],
  ['answers with a web page', { fault: 'html' }, 503, /answers with a web page/],
  [
    'repeats the key that it refuses',
    {
      respond: (response) =>
        void response.writeHead(401, json).end(`{"error":{"message":"bad key ${modelKey}"}}`),
    },
    403,
    /refuses the key of the platform/,
  ],
  [
    'forbids',
    { respond: (response) => void response.writeHead(403, json).end(`"${modelKey}"`) },
    403,
    /refuses the key of the platform/,
  ],
  [
    'answers with a very long error',
    { respond: (response) => void response.writeHead(500, json).end('x'.repeat(300_000)) },
    503,
    /answers with status 500/,
  ],
  [
    'answers with a compressed error',
    {
      respond: (response) =>
        void response
          .writeHead(400, { ...json, 'content-encoding': 'gzip' })
          .end(gzipSync(`{"error":"${modelKey}"}`)),
    },
    503,
    /answers with status 400/,
  ],
  [
    'breaks off an error',
    {
      respond: (response) => {
        response.writeHead(500, { ...json, 'content-length': '100' });
        response.write('{"err', () => response.destroy());
      },
    },
    503,
    /answers with status 500/,
  ],
];

describe.each(apiNames)('a provider of %s', (api) => {
  it.each([408, 504])(
    'that has given up waiting for an answer, with status %d, may charge for it',
    async (status) => {
      scene.provider.behave = () => ({ inputTokens: 0, fault: { status } });
      expect(await small(api)).toMatchObject({ status });
      expect(await scene.spentInAll()).toBeGreaterThan(4_000_000);
    },
  );

  it('that does wrong is reported in the shape of the API, and paid for what it may have done', async () => {
    let charged = 0;
    for (const [what, behaviour, status, says, isCharged] of faults) {
      scene.provider.behave = () => ({ inputTokens: 0, ...behaviour });
      const got = await small(api);
      expect([what, got.status, got.isWhole]).toEqual([what, status, true]);
      expect(refusalIn(api, got)).toMatch(says);
      expect(JSON.stringify(got)).not.toContain(modelKey);
      if (isCharged === 'charged') charged += 1;
    }
    const each = (await scene.spentInAll()) / charged;
    expect(each).toBeGreaterThan(4_000_000);
    expect(each).toBeLessThan(6_000_000);
  });

  it('has its own errors passed on with their headers, and without the key', async () => {
    for (const status of [400, 402, 404, 413, 422, 500]) {
      const body = `{"error": {"message":"ä ${status}"} }`;
      scene.provider.behave = () => ({
        inputTokens: 0,
        respond: (response) =>
          void response
            .writeHead(status, { ...json, 'retry-after': '12', 'x-should-retry': 'true' })
            .end(body),
      });
      const got = await small(api);
      expect(got).toMatchObject({ status, text: body });
      expect(got.headers).toMatchObject({ 'retry-after': '12', 'x-should-retry': 'true' });
    }
    scene.provider.behave = () => ({
      inputTokens: 0,
      respond: (response) =>
        void response
          .writeHead(400, { ...json, 'x-request-id': `for ${modelKey}` })
          .end(`{"error":"The key ${modelKey} is odd"}`),
    });
    const got = await small(api);
    expect(got).toMatchObject({ status: 400, text: '{"error":"The key <redacted> is odd"}' });
    expect(JSON.stringify(got)).not.toContain(modelKey);
    expect(await scene.spentInAll()).toBe(0);
  });

  it('has errors that no wait mends passed on at once', async () => {
    const errors = [
      [503, {}, '{"error":{"message":"down"}}'],
      [429, {}, '{"error":{"code":"insufficient_quota"}}'],
      [429, { 'x-should-retry': 'false', 'retry-after-ms': '7' }, '{"error":{"message":"no"}}'],
    ] as const;
    for (const [status, headers, text] of errors) {
      scene.provider.behave = () => ({
        inputTokens: 0,
        respond: (response) => void response.writeHead(status, { ...json, ...headers }).end(text),
      });
      expect(await small(api)).toMatchObject({ status, text, headers });
    }
    expect(scene.provider.calls).toHaveLength(errors.length);
    expect(await scene.spentInAll()).toBe(0);
  });

  it('that answers 200 with an error is passed on, and costs nothing', async () => {
    const errors = [
      '{"error":{"message":"overloaded","type":"server_error"}}',
      '{"type":"error","error":{"type":"overloaded_error"},"request_id":"r"}',
      '[{"error":{"code":503,"status":"UNAVAILABLE"}}]',
      '{"object":"response","status":"failed","error":{"code":"x"},"output":[],"usage":null}',
    ];
    for (const text of errors) {
      scene.provider.behave = () => ({
        inputTokens: 0,
        respond: (response) => void response.writeHead(200, json).end(text),
      });
      expect(await small(api)).toMatchObject({ status: 200, text });
    }
    expect(await scene.spentInAll()).toBe(0);
  });

  it('whose answer is not what it should be costs all that was reserved', async () => {
    const answers = [
      '{"choices": [',
      '{"candidates":[',
      '',
      '[]',
      'null',
      '"text"',
      '<h1>Not what it says</h1>',
      '{"error":{"message":"half"},"choices":[{"message":{}}]}',
      `{"choices":[],"usage":{"prompt_tokens":${'9'.repeat(400)},"completion_tokens":1}}`,
    ];
    for (const text of answers) {
      scene.provider.behave = () => ({
        respond: (response) => void response.writeHead(200, json).end(text),
      });
      expect(await small(api)).toMatchObject({ status: 200, text, isWhole: true });
    }
    const spent = await scene.spentInAll();
    expect(spent).toBeGreaterThan(answers.length * 4_000_000);
  });

  it('that hangs before its headers is given up with a reason', async () => {
    scene.provider.behave = () => ({ fault: 'hang' });
    const answer = small(api);
    await eventually('the call', () => scene.provider.calls.length === 1, 5_000);
    clock.pass();
    const got = await answer;
    expect(got.status).toBe(503);
    expect(refusalIn(api, got)).toBe('The provider of the model has not answered in time.');
    await eventually('the end of the call', () => scene.provider.left.length === 1, 1_000);
    expect(await scene.spentInAll()).toBeGreaterThan(0);
  });
});

it.each<[string, string]>([
  ['no HTTP', 'SSH-2.0-OpenSSH_9.2\r\n'],
  ['nothing', ''],
  ['headers without an end', `HTTP/1.1 200 OK\r\n${'X: 1\r\n'.repeat(10_000)}`],
  ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}'],
  [
    'another protocol',
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
  ],
  ['an interim answer alone', 'HTTP/1.1 103 Early\r\n\r\n'],
])('a provider that answers with %s may have charged', async (_what, bytes) => {
  await using provider = await rawProvider(bytes);
  scene.template(agentOf(urlOf(provider)));
  const got = await small('chat');
  expect(got.status).toBe(503);
  expect(refusalIn('chat', got)).toBe(
    'The provider of the model has closed the connection without an answer.',
  );
  expect(await scene.spentInAll()).toBeGreaterThan(4_000_000);
});

it.each<[string, string]>([
  ['a bad size of a chunk', 'Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n'],
  ['less than its length', 'Content-Length: 100\r\n\r\n{}'],
])('an answer with %s breaks off for the agent, too', async (_what, rest) => {
  await using provider = await rawProvider(
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n${rest}`,
  );
  scene.template(agentOf(urlOf(provider)));
  expect(await small('chat')).toMatchObject({ status: 200, isWhole: false });
  expect(await scene.spentInAll()).toBeGreaterThan(4_000_000);
});

it('passes no header that a connection can not carry', async () => {
  await using provider = await rawProvider(
    'HTTP/1.1 200 \xff\xfe\r\nContent-Type: application/json\r\nX-Request-Id: \xff\x80\r\nOpenAI-Organization: \t\r\nContent-Length: 2\r\n\r\n{}',
  );
  scene.template(agentOf(urlOf(provider)));
  const got = await small('chat');
  expect(got).toMatchObject({ status: 200, text: '{}' });
  expect(got.headers).toHaveProperty('x-request-id');
});

describe('a provider that can not be reached', () => {
  const unreachable = async (baseUrl: string): Promise<void> => {
    scene.template(agentOf(baseUrl));
    const got = await small('chat');
    expect(got.status).toBe(503);
    expect(refusalIn('chat', got)).toBe('The provider of the model can not be reached.');
    expect(await scene.spentInAll()).toBe(0);
  };

  it('costs nothing without a name', () => unreachable('http://no-such-host.invalid/v1'));
  it('costs nothing without a server', () => unreachable('http://127.0.0.1:1/v1'));
  it('costs nothing where TLS ends at once', async () => {
    await using provider = await rawProvider('HTTP/1.1 400 Bad Request\r\n\r\n');
    await unreachable(urlOf(provider).replace('http:', 'https:'));
  });
  it('costs nothing with a certificate that nobody trusts', async () => {
    const { cert, key } = privateAuthority(['127.0.0.1']);
    const server = createTlsServer({ cert, key });
    server.on('tlsClientError', () => undefined).listen(0, '127.0.0.1');
    await once(server, 'listening');
    await unreachable(urlOf(server).replace('http:', 'https:'));
    server.close();
  });
  it('costs nothing with a key that no header can carry', async () => {
    scene.credentials.set('platform', 'sk-\n-\u0000');
    await unreachable(`${scene.provider.url}/v1`);
    expect(scene.provider.calls).toEqual([]);
  });
});
