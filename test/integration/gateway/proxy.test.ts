import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { WebSocket } from 'ws';
import { sandboxes, type Sandbox } from '../../../src/resources/sandbox.ts';
import { eventually } from '../../support/eventually.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

let agent: StubAgent;
let gateway: TestGateway;
let count = 0;

beforeAll(async () => {
  agent = await StubAgent.start();
  gateway = await TestGateway.start({
    publicUrl: 'https://gateway.example',
    sandboxUrlTemplate: 'https://{sandbox}-{port}.agents.example',
    proxyLimits: { firstByteMs: 1500, perSandbox: 8 },
    pools: { keylessAgentRequests: { perSandbox: 2 } },
  });
});
afterAll(async () => {
  await gateway.stop();
  await agent.stop();
});
beforeEach(() => agent.reset());

async function aSandbox(wish: Parameters<TestGateway['addSandbox']>[1] = {}) {
  count += 1;
  const sandbox = await gateway.addSandbox(`sbx-${count}`, { status: agent.status, ...wish });
  const { name } = sandbox.metadata;
  return {
    sandbox,
    name,
    key: gateway.sessionKeyOf(sandbox),
    agentKey: gateway.keys.sessionKey(sandbox.metadata.uid),
    path: `/sandboxes/${name}/AGENT_SERVER`,
    host: `${name}-agent-server.agents.example`,
  };
}

const send = (
  method: string,
  path: string,
  headers: Record<string, string> = {},
  rawBody?: Buffer,
) =>
  gateway.open(method, path, { key: null, headers, ...(rawBody === undefined ? {} : { rawBody }) });
const body = (response: IncomingMessage) => textOf(response);
const problem = async (response: IncomingMessage) =>
  JSON.parse(await body(response)) as { code: string; detail: string; request_id: string };
const keyed = (key: string) => ({ 'x-session-api-key': key });
const changeStatus = async ({ metadata: { name } }: Sandbox, status: object) => {
  const updated = await gateway.client.mergePatch(
    sandboxes,
    namespace,
    name,
    { status },
    { subresource: 'status' },
  );
  await gateway.seen(gateway.caches.sandboxes, updated);
};
const pause = async ({ metadata: { name } }: Sandbox) => {
  const updated = await gateway.client.mergePatch(sandboxes, namespace, name, {
    spec: { replicas: 0 },
  });
  await gateway.seen(gateway.caches.sandboxes, updated);
};

/** The bytes that a raw connection receives until it is closed, or until `enough` says so. */
async function raw(
  text: string,
  enough: (answer: string) => boolean = () => false,
): Promise<string> {
  const socket = connect(gateway.port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk: Buffer) => {
    answer += chunk.toString('latin1');
    if (enough(answer)) socket.destroy();
  });
  socket.on('error', () => undefined);
  socket.write(text);
  await once(socket, 'close');
  return answer;
}

function webSocket(path: string, headers: Record<string, string> = {}): WebSocket {
  const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}${path}`, { headers });
  socket.on('error', () => undefined);
  return socket;
}
const refused = async (socket: WebSocket): Promise<number> => {
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
  response.resume();
  return response.statusCode ?? 0;
};
const closeCode = async (socket: WebSocket): Promise<number> => {
  const [code] = (await once(socket, 'close')) as [number];
  return code;
};

describe('a request to an agent', () => {
  it('goes by path, and what the agent says comes back', async () => {
    const { path, key } = await aSandbox();
    const response = await send(
      'POST',
      `${path}/api/conversations/%2Fx?a=b`,
      { ...keyed(key), 'content-type': 'text/plain' },
      Buffer.from('hello'),
    );
    expect(response.statusCode).toBe(200);
    expect(await body(response)).toBe(JSON.stringify({ url: '/api/conversations/%2Fx?a=b' }));
    expect(agent.seen).toMatchObject([
      {
        method: 'POST',
        url: '/api/conversations/%2Fx?a=b',
        body: 'hello',
        headers: { 'content-length': '5' },
      },
    ]);
  });

  it('goes by host name, whatever its path', async () => {
    const { host, key, name, path } = await aSandbox();
    const response = await send('GET', '/api/v1/sandboxes/search', { ...keyed(key), host });
    expect(await body(response)).toBe(JSON.stringify({ url: '/api/v1/sandboxes/search' }));
    expect(response.headers['content-security-policy']).toBeUndefined();
    expect(agent.seen[0]?.headers).toMatchObject({
      'x-forwarded-host': host,
      'x-forwarded-proto': 'https',
    });
    const { json } = await gateway.get(`/api/v1/sandboxes?id=${name}`);
    expect(json).toMatchObject([
      { exposed_urls: [{ name: 'AGENT_SERVER', url: `https://${host}`, port: agent.port }] },
    ]);
    expect(
      (await send('GET', '/alive', { host: 'other-agent-server.agents.example' })).statusCode,
    ).toBe(404);
    expect(
      (await send('GET', `${path}/alive`, { host: 'other-agent-server.agents.example' }))
        .statusCode,
    ).toBe(401);
  });

  it('carries no credentials but the key of the agent, and says where it came from', async () => {
    const { path, key, agentKey } = await aSandbox();
    const response = await send('GET', `${path}/api/x`, {
      ...keyed(key),
      authorization: `Bearer ${gateway.alice}`,
      cookie: 'a=b',
      'x-forwarded-for': '1.2.3.4',
      forwarded: 'for=1.2.3.4',
      'x-request-id': 'my-id',
      connection: 'close, x-hop',
      'x-hop': 'secret',
    });
    await body(response);
    const headers = agent.seen[0]?.headers ?? {};
    expect(headers).toMatchObject({
      host: `127.0.0.1:${agent.port}`,
      'x-session-api-key': agentKey,
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'gateway.example',
      'x-forwarded-prefix': path,
      'x-request-id': 'my-id',
    });
    for (const name of ['authorization', 'cookie', 'forwarded', 'x-hop'])
      expect(headers).not.toHaveProperty(name);
    expect(response.headers['x-request-id']).toBe('my-id');
  });

  it('brings back no cookies, no CORS of the agent, and no address of its own', async () => {
    const { path, key } = await aSandbox();
    agent.answer = (_request, response) =>
      response
        .writeHead(307, {
          location: `http://127.0.0.1:${agent.port}/api/tools/`,
          'set-cookie': ['a=b', 'c=d'],
          'access-control-allow-origin': 'http://localhost',
          'x-own': 'kept',
        })
        .end();
    const { headers, statusCode } = await send('GET', `${path}/api/tools`, keyed(key));
    expect(statusCode).toBe(307);
    expect(headers).toMatchObject({
      location: `${path}/api/tools/`,
      'x-own': 'kept',
      'content-security-policy': 'sandbox',
    });
    expect(headers).not.toHaveProperty('set-cookie');
    expect(headers).not.toHaveProperty('access-control-allow-origin');
    expect(JSON.stringify(headers)).not.toContain('127.0.0.1');
  });

  it.each(['/alive', '/health', '/ready', '/server_info'])(
    'to %s needs no key, and passes none on that is not right',
    async (open) => {
      const { path } = await aSandbox();
      expect(
        (await send('GET', `${path}${open}?session_api_key=${gateway.alice}`, keyed(gateway.alice)))
          .statusCode,
      ).toBe(200);
      expect(agent.seen).toMatchObject([{ url: open }]);
      expect(JSON.stringify(agent.seen)).not.toContain(gateway.alice);
    },
  );

  it.each<[string, (key: string) => Record<string, string>]>([
    ['no key', () => ({})],
    ['an API key', () => keyed(gateway.alice)],
    ['an API key as Bearer', () => ({ authorization: `Bearer ${gateway.alice}` })],
    ['a session key as Bearer', (key) => ({ authorization: `Bearer ${key}` })],
    ['another key', (key) => keyed(`${key.slice(0, -1)}_`)],
    ['an empty key', () => keyed('')],
    ['a longer key', (key) => keyed(`${key}x`)],
    ['two keys', (key) => keyed(`${key}, ${key}`)],
  ])('with %s is refused', async (_case, headers) => {
    const { path, key } = await aSandbox();
    const response = await send('GET', `${path}/api/conversations`, headers(key));
    expect(response.statusCode).toBe(401);
    expect(await problem(response)).toMatchObject({
      code: 'unauthorized',
      request_id: response.headers['x-request-id'],
    });
    expect((await send('GET', `${path}/api/x?session_api_key=${key}`)).statusCode).toBe(401);
    expect(agent.seen).toEqual([]);
  });

  it('with the key of another sandbox is refused', async () => {
    const [one, other] = [await aSandbox(), await aSandbox()];
    expect((await send('GET', `${one.path}/api/x`, keyed(other.key))).statusCode).toBe(401);
  });

  it('to a sandbox that does not exist is not found', async () => {
    const { key } = await aSandbox();
    const response = await send('GET', '/sandboxes/unknown/AGENT_SERVER/alive', keyed(key));
    expect([response.statusCode, (await problem(response)).code]).toEqual([404, 'not-found']);
    expect((await send('GET', '/sandboxes/unknown/VSCODE/', keyed(key))).statusCode).toBe(404);
    // A request that needs its key is answered as with the key of another one.
    expect(
      (await send('GET', '/sandboxes/unknown/AGENT_SERVER/api/x', keyed(key))).statusCode,
    ).toBe(401);
  });

  it('to one that is PAUSED or STARTING waits for it, as its answer says', async () => {
    const paused = await aSandbox({ replicas: 0 });
    const starting = await aSandbox({ status: { podIP: '127.0.0.1', agentPort: agent.port } });
    for (const [{ path, key }, phase] of [
      [paused, 'PAUSED'],
      [starting, 'STARTING'],
    ] as const) {
      const response = await send('GET', `${path}/api/x`, keyed(key));
      expect(response.statusCode).toBe(503);
      expect(Number(response.headers['retry-after'])).toBeGreaterThan(0);
      expect(await problem(response)).toMatchObject({
        code: 'sandbox-not-running',
        detail: `The sandbox is ${phase}.`,
      });
      expect((await send('GET', `${path}/api/x`)).statusCode).toBe(401);
      expect((await send('GET', `${path}/alive`)).statusCode).toBe(503);
    }
  });

  it('to one that comes up just now is answered', async () => {
    const { sandbox, path, key } = await aSandbox({ status: {} });
    const answer = send('GET', `${path}/api/x`, keyed(key));
    await changeStatus(sandbox, agent.status);
    expect((await answer).statusCode).toBe(200);
  });

  it('to an agent that is away says so', async () => {
    const { path, key } = await aSandbox({ status: { ...agent.status, agentPort: 1 } });
    const response = await send('GET', `${path}/api/x`, keyed(key));
    expect([response.statusCode, (await problem(response)).code]).toEqual([
      502,
      'agent-unreachable',
    ]);
    const withBody = await send('POST', `${path}/api/x`, keyed(key), Buffer.alloc(300_000));
    expect(withBody.statusCode).toBe(502);
  });

  it('that the agent does not answer in time says so', async () => {
    const { path, key } = await aSandbox();
    agent.answer = () => undefined;
    const response = await send('GET', `${path}/api/x`, keyed(key));
    expect([response.statusCode, (await problem(response)).code]).toEqual([504, 'agent-timeout']);
  });

  it.each(['169.254.169.254', '0.0.0.0', 'localhost', '::', 'metadata.internal', '127.0.0.1:22'])(
    'never goes to %s',
    async (podIP) => {
      const { path, key } = await aSandbox({ status: { ...agent.status, podIP } });
      expect((await send('GET', `${path}/api/x`, keyed(key))).statusCode).toBe(503);
    },
  );

  it('is sent again when the agent has closed the connection just then, and only what may be sent twice', async () => {
    const { path, key } = await aSandbox();
    let calls = 0;
    agent.answer = (request, response) => {
      calls += 1;
      if (calls % 2 === 1) request.socket.destroy();
      else response.end('second');
    };
    expect(await body(await send('GET', `${path}/api/x`, keyed(key)))).toBe('second');
    calls = 0;
    expect((await send('POST', `${path}/api/x`, keyed(key), Buffer.from('once'))).statusCode).toBe(
      502,
    );
    expect(calls).toBe(1);
  });

  it('may have a body of any size', async () => {
    const { path, key } = await aSandbox();
    let received = 0;
    agent.answer = (request, response) => {
      request.on('data', (chunk: Buffer) => (received += chunk.length));
      request.on('end', () => response.end('done'));
    };
    const size = 64 * 1024 * 1024;
    const outgoing = httpRequest({
      port: gateway.port,
      host: '127.0.0.1',
      method: 'POST',
      path: `${path}/api/file/upload`,
      headers: keyed(key),
    });
    const chunk = Buffer.alloc(64 * 1024, 1);
    for (let sent = 0; sent < size; sent += chunk.length) {
      if (!outgoing.write(chunk)) await once(outgoing, 'drain');
    }
    outgoing.end();
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    expect(await body(response)).toBe('done');
    expect(received).toBe(size);
  });

  it('that the agent does not read holds its client back', async () => {
    const { path, key } = await aSandbox();
    agent.answer = () => undefined;
    const outgoing = httpRequest({
      port: gateway.port,
      host: '127.0.0.1',
      method: 'POST',
      path: `${path}/api/x`,
      headers: keyed(key),
    });
    outgoing.on('error', () => undefined);
    let written = 0;
    while (written < 256 * 1024 * 1024) {
      written += 65_536;
      if (outgoing.write(Buffer.alloc(65_536))) continue;
      const hasDrained = await Promise.race([
        once(outgoing, 'drain').then(() => true),
        new Promise<false>((resolve) => setTimeout(resolve, 500, false)),
      ]);
      if (!hasDrained) break;
    }
    expect(written).toBeLessThan(64 * 1024 * 1024);
    outgoing.destroy();
  });

  it('whose answer no client reads holds the agent back', async () => {
    const { path, key } = await aSandbox();
    let written = 0;
    let isHeld = false;
    agent.answer = (_request, response) => {
      const write = () => {
        while (written < 256 * 1024 * 1024) {
          written += 65_536;
          if (!response.write(Buffer.alloc(65_536))) {
            isHeld = true;
            response.once('drain', write);
            return;
          }
        }
        response.end();
      };
      write();
    };
    const response = await send('GET', `${path}/api/file/download`, keyed(key));
    await eventually('the agent waits', () => isHeld);
    const settled = async () => {
      const before = written;
      await new Promise((resolve) => setTimeout(resolve, 200));
      return before === written;
    };
    await eventually('nothing more is written', settled);
    expect(written).toBeLessThan(64 * 1024 * 1024);
    response.destroy();
  });

  it('is given up when its client goes', async () => {
    const { path, key } = await aSandbox();
    let isGone = false;
    agent.answer = (request, response) => {
      request.socket.once('close', () => (isGone = true));
      response.write('begin');
    };
    const response = await send('GET', `${path}/api/stream`, keyed(key));
    await once(response, 'data');
    response.destroy();
    await eventually('the agent knows', () => isGone);
  });

  it('that breaks off in the middle is closed, not ended', async () => {
    const { path, key } = await aSandbox();
    agent.answer = (request, response) => {
      response.write('half');
      setImmediate(() => request.socket.destroy());
    };
    const response = await send('GET', `${path}/api/x`, keyed(key));
    await expect(body(response)).rejects.toThrow('aborted');
  });

  it('begins its answer before there is a byte of it', async () => {
    const { path, key } = await aSandbox();
    let finish = () => undefined as unknown;
    agent.answer = (_request, response) => {
      response.flushHeaders();
      finish = () => response.end('late');
    };
    const response = await send('GET', `${path}/api/x`, keyed(key));
    finish();
    expect(await body(response)).toBe('late');
  });

  it('finds a limited number of places', async () => {
    const { path, key } = await aSandbox();
    const held: (() => unknown)[] = [];
    agent.answer = (_request, response) => held.push(() => response.end('ok'));
    const answers = Array.from({ length: 8 }, () => send('GET', `${path}/api/x`, keyed(key)));
    await eventually('eight wait', () => held.length === 8);
    const response = await send('GET', `${path}/api/x`, keyed(key));
    expect([response.statusCode, (await problem(response)).code]).toEqual([
      503,
      'too-many-connections',
    ]);
    for (const end of held) end();
    for (const answer of answers) expect(await body(await answer)).toBe('ok');
    await eventually('there is room again', async () => {
      agent.answer = undefined;
      return (await send('GET', `${path}/api/x`, keyed(key))).statusCode === 200;
    });
  });

  it.each([
    ['dots', '/../../alive'],
    ['encoded dots', '/%2e%2e/%2e%2e/alive'],
    ['a backslash', '/..\\alive'],
    ['an encoded line break', '/alive%0d%0aX:1'],
    ['a broken escape', '/alive%'],
  ])('with %s in its path is refused', async (_case, rest) => {
    const { path, key } = await aSandbox();
    const answer = await raw(
      `GET ${path}${rest} HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: ${key}\r\nConnection: close\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(agent.seen).toEqual([]);
  });

  it.each([
    [
      'in absolute form',
      (path: string, host: string) =>
        `GET http://127.0.0.1:1${path}/alive HTTP/1.1\r\nHost: ${host}`,
    ],
    ['with two hosts', (path: string) => `GET ${path}/alive HTTP/1.1\r\nHost: a\r\nHost: b`],
    ['with TRACE', (path: string) => `TRACE ${path}/alive HTTP/1.1\r\nHost: a`],
    [
      'with two lengths',
      (path: string) =>
        `POST ${path}/api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2`,
    ],
    [
      'with a length and chunks',
      (path: string) =>
        `POST ${path}/api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked`,
    ],
    [
      'with a line break in a header',
      (path: string) => `GET ${path}/alive HTTP/1.1\r\nHost: a\r\nX-A: b\nX-C: d\r\r`,
    ],
  ])('%s never reaches the agent', async (_case, head) => {
    const { path, host } = await aSandbox();
    expect(await raw(`${head(path, host)}\r\nConnection: close\r\n\r\n`)).toMatch(/^HTTP\/1\.1 4/);
    expect(agent.seen).toEqual([]);
  });
});

describe('a WebSocket to an agent', () => {
  const path = (base: string, query = '') => `${base}/sockets/events/1${query}`;

  const auth = (key: string) => JSON.stringify({ type: 'auth', session_api_key: key });

  it.each<[string, (key: string) => [string, Record<string, string>, string?]]>([
    ['with its key in the header', (key) => ['', keyed(key)]],
    ['with its key in the query', (key) => [`?session_api_key=${key}`, {}]],
    [
      'without a key, which comes in the first message',
      (key) => ['?resend_mode=all', {}, auth(key)],
    ],
  ])('%s passes everything on, large and compressed too', async (_case, given) => {
    const { path: base, key, agentKey } = await aSandbox();
    const [query, headers, first] = given(key);
    const [queryOfAgent] = given(agentKey);
    const socket = webSocket(path(base, query), {
      ...headers,
      authorization: 'Bearer x',
      cookie: 'a=b',
    });
    await once(socket, 'open');
    if (first !== undefined) {
      socket.send(first);
      await once(socket, 'message');
    }
    for (const size of [1, 200, 100_000, 1_000_000]) {
      socket.send('x'.repeat(size));
      const [data] = (await once(socket, 'message')) as [Buffer];
      expect(data.length).toBe(size);
    }
    expect(agent.seen[0]).toMatchObject({
      url: path('', queryOfAgent),
      headers: { host: `127.0.0.1:${agent.port}`, 'x-forwarded-for': '127.0.0.1' },
    });
    expect(agent.seen[0]?.headers).not.toHaveProperty('authorization');
    expect(agent.seen[0]?.headers).not.toHaveProperty('cookie');
    socket.close(3000, 'bye');
    expect(await closeCode(socket)).toBe(3000);
    await eventually('the agent knows', () => agent.sockets.size === 0);
  });

  it('goes by host name', async () => {
    const { host, key } = await aSandbox();
    const socket = webSocket('/sockets/events/1', { ...keyed(key), host });
    await once(socket, 'open');
    socket.close();
    await closeCode(socket);
  });

  it('with a wrong key is refused', async () => {
    const { path: base, key } = await aSandbox();
    expect(await refused(webSocket(path(base), keyed('wrong')))).toBe(401);
    expect(await refused(webSocket(path(base, '?session_api_key=wrong'), keyed(key)))).toBe(401);
    expect(await refused(webSocket(path(base, '?session_api_key='), {}))).toBe(401);
    expect(agent.seen).toEqual([]);
  });

  it.each([
    ['refuses', 'HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nSet-Cookie: a=b\r\n\r\n', 403],
    ['answers like HTTP', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok', 502],
    [
      'does not mean',
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n',
      502,
    ],
    ['breaks off', '', 502],
  ])('that the agent %s is refused', async (_case, refusal, status) => {
    const { path: base, key } = await aSandbox();
    agent.refusal = refusal;
    expect(await refused(webSocket(path(base), keyed(key)))).toBe(status);
  });

  it('is refused while the sandbox does not run', async () => {
    const { path: base, key } = await aSandbox({ replicas: 0 });
    expect(await refused(webSocket(path(base), keyed(key)))).toBe(503);
    expect(await refused(webSocket('/sandboxes/unknown/AGENT_SERVER/x', keyed(key)))).toBe(401);
    expect(await refused(webSocket('/sandboxes/unknown/AGENT_SERVER/x', {}))).toBe(404);
  });

  it.each<[string, (sandbox: Sandbox) => Promise<unknown>]>([
    ['is paused', (sandbox) => pause(sandbox)],
    ['is deleted', (sandbox) => gateway.client.delete(sandboxes, namespace, sandbox.metadata.name)],
    ['gets another pod', (sandbox) => changeStatus(sandbox, { podUID: 'pod-2' })],
  ])('ends with 1001 for both when its sandbox %s', async (_case, happen) => {
    const { sandbox, path: base, key } = await aSandbox();
    const seen = Promise.withResolvers<number>();
    agent.onSocket = (socket) => socket.once('close', (code) => seen.resolve(code));
    const socket = webSocket(path(base), keyed(key));
    await once(socket, 'open');
    const code = closeCode(socket);
    await happen(sandbox);
    expect(await code).toBe(1001);
    expect(await seen.promise).toBe(1001);
  });

  it('ends after the frame that it is in the middle of', async () => {
    const { sandbox, path: base, key } = await aSandbox();
    const reached = Promise.withResolvers<Duplex>();
    agent.onWire = (wire) => reached.resolve(wire.on('error', () => undefined));
    const socket = webSocket(path(base), keyed(key));
    await once(socket, 'open');
    const wire = await reached.promise;
    wire.write(Buffer.of(0x81, 1, 0x60, 0x81, 4, 0x61, 0x62));
    await once(socket, 'message');
    const message = once(socket, 'message');
    const code = closeCode(socket);
    await pause(sandbox);
    wire.write(Buffer.of(0x63, 0x64, 0x81, 1, 0x65));
    expect(String(((await message) as [Buffer])[0])).toBe('abcd');
    expect(await code).toBe(1001);
  });

  it('finds a limited number of places before it has shown a key', async () => {
    const { path: base, key } = await aSandbox();
    const [first, second] = [webSocket(path(base)), webSocket(path(base))];
    await Promise.all([once(first, 'open'), once(second, 'open')]);
    expect(await refused(webSocket(path(base)))).toBe(503);
    const keyedSocket = webSocket(path(base), keyed(key));
    await once(keyedSocket, 'open');
    first.send(auth(key));
    await once(first, 'message');
    const third = webSocket(path(base));
    await once(third, 'open');
    for (const socket of [first, second, third, keyedSocket]) socket.terminate();
  });

  it.each([
    ['a body', 'Content-Length: 3'],
    ['chunks', 'Transfer-Encoding: chunked'],
    ['another version', 'Sec-WebSocket-Version: 8'],
    ['a bad key', 'Sec-WebSocket-Key: x'],
  ])('with %s is no handshake', async (_case, line) => {
    const { path: base, key } = await aSandbox();
    const lines = [
      `GET ${base}/sockets/events/1 HTTP/1.1`,
      'Host: x',
      'Connection: Upgrade',
      'Upgrade: websocket',
      ...(line.startsWith('Sec-WebSocket-Version') ? [] : ['Sec-WebSocket-Version: 13']),
      ...(line.startsWith('Sec-WebSocket-Key')
        ? []
        : ['Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==']),
      line,
      `X-Session-API-Key: ${key}`,
    ];
    expect(await raw(`${lines.join('\r\n')}\r\n\r\n`)).toMatch(/^HTTP\/1\.1 400 /);
    expect(agent.seen).toEqual([]);
  });

  it('is nothing that the service itself has', async () => {
    expect(await refused(webSocket('/api/v1/sandboxes/search'))).toBe(401);
    expect(await refused(webSocket('/sockets/events/1'))).toBe(404);
  });

  it('is not what another upgrade asks for', async () => {
    const { path: base } = await aSandbox();
    const answer = await raw(
      `GET ${base}/alive HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  });
});

describe('the session key', () => {
  it('alone opens the settings of its own running sandbox', async () => {
    const [one, other] = [await aSandbox(), await aSandbox()];
    const url = `/api/v1/sandboxes/${one.name}/settings/secrets`;
    const get = (path: string, headers: Record<string, string>, key: string | null = null) =>
      gateway.get(path, { key, headers });
    expect(await get(url, keyed(one.key))).toMatchObject({ status: 200, json: { secrets: [] } });
    expect(await get(`${url}/TOKEN`, keyed(one.key))).toMatchObject({
      status: 404,
      json: { code: 'not-found' },
    });
    expect(await get(url, keyed(other.key))).toMatchObject({ status: 401 });
    expect(await get(url, {})).toMatchObject({ status: 401 });
    expect(await get(url, keyed(other.key), gateway.alice)).toMatchObject({ status: 200 });
    expect(await get(url, {}, gateway.bob)).toMatchObject({ status: 404 });
    expect(await get('/api/v1/sandboxes/unknown/settings/secrets', keyed(one.key))).toMatchObject({
      status: 401,
    });
    expect(await get('/api/v1/sandboxes/search', keyed(one.key))).toMatchObject({ status: 401 });
    await pause(one.sandbox);
    expect(await get(url, keyed(one.key))).toMatchObject({ status: 401 });
  });
});

describe('a gateway that closes', () => {
  it('sends WebSockets to another replica, and lets requests end', async () => {
    const own = await TestGateway.start({ graceMs: 60_000 });
    const sandbox = await own.addSandbox('sbx-1', { status: agent.status });
    const headers = keyed(own.sessionKeyOf(sandbox));
    const socket = new WebSocket(`ws://127.0.0.1:${own.port}/sandboxes/sbx-1/AGENT_SERVER/x`, {
      headers,
    });
    await once(socket, 'open');
    let finish = () => undefined as unknown;
    const reached = Promise.withResolvers<undefined>();
    agent.answer = (_request, response) => {
      finish = () => response.end('whole');
      reached.resolve(undefined);
    };
    const answer = own.open('GET', '/sandboxes/sbx-1/AGENT_SERVER/api/x', { key: null, headers });
    await reached.promise;
    const code = closeCode(socket);
    const stopped = own.stop();
    expect(await code).toBe(1012);
    finish();
    const response = await answer;
    expect(await body(response)).toBe('whole');
    expect(response.headers.connection).toBe('close');
    await stopped;
  });
});
