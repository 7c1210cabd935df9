import { once } from 'node:events';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { gatewaySettings } from '../../../src/commands/gateway-wiring.ts';
import { readGatewayConfig } from '../../../src/config/cluster.ts';
import { eventually } from '../../support/eventually.ts';
import { openRaw, expectDecent, sendRaw, verdictOf } from '../../support/gateway/raw-http.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

const bad = '400 malformed-request';
const target = '/sandboxes/sbx-1/AGENT_SERVER/sockets/events/1';

let agent: StubAgent;
let gateway: TestGateway;
let key: string;
beforeAll(async () => {
  agent = await StubAgent.start();
  gateway = await TestGateway.start({
    ...gatewaySettings(readGatewayConfig({ MASTER_KEY_FILES: 'unused', OVERLOAD_DELAY_MS: '0' })),
    rateLimits: { failedKeysPerMinute: 10 },
    proxyLimits: { idleMs: 60_000 },
    pools: { keylessAgentRequests: { perSandbox: 3 } },
    trustedProxies: ['127.0.0.1'],
  });
  const sandbox = await gateway.addSandbox('sbx-1', { status: agent.status });
  key = gateway.sessionKeyOf(sandbox);
});
beforeEach(() => agent.reset());
afterEach(async () => {
  expect(await gateway.get('/alive', { key: null })).toMatchObject({ status: 200 });
});
afterAll(async () => {
  await gateway.stop();
  await agent.stop();
});

const wanted = {
  Upgrade: 'websocket',
  Connection: 'Upgrade',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
};
type Headers = Readonly<Record<string, string | undefined>>;
const handshake = (headers: Headers = {}, line = `GET ${target} HTTP/1.1`) =>
  [
    line,
    'Host: x',
    ...Object.entries<string | undefined>({ ...wanted, 'X-Session-API-Key': key, ...headers })
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name}: ${value ?? ''}`),
    '\r\n',
  ].join('\r\n');

describe('a handshake', () => {
  it.each<[string, () => string, string]>([
    ['that is right, for comparison', () => handshake(), '101'],
    ['without a key of its own', () => handshake({ 'Sec-WebSocket-Key': undefined }), bad],
    ['with a key that is too short', () => handshake({ 'Sec-WebSocket-Key': 'c2hvcnQ=' }), bad],
    [
      'with a key that is no base64',
      () => handshake({ 'Sec-WebSocket-Key': '*'.repeat(22) + '==' }),
      bad,
    ],
    [
      'with two keys',
      () =>
        handshake().replace('\r\n\r\n', '\r\nSec-WebSocket-Key: eGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'),
      bad,
    ],
    ['without a version', () => handshake({ 'Sec-WebSocket-Version': undefined }), bad],
    ['of version 8', () => handshake({ 'Sec-WebSocket-Version': '8' }), bad],
    ['of two versions', () => handshake({ 'Sec-WebSocket-Version': '13, 8' }), bad],
    ['by POST', () => handshake({}, `POST ${target} HTTP/1.1`), bad],
    ['by HTTP/1.0', () => handshake({}, `GET ${target} HTTP/1.0`), bad],
    ['with a body', () => `${handshake({ 'Content-Length': '5' })}hello`, bad],
    [
      'with a body in chunks',
      () => `${handshake({ 'Transfer-Encoding': 'chunked' })}0\r\n\r\n`,
      bad,
    ],
    ['with two Hosts', () => handshake().replace('\r\n\r\n', '\r\nHost: y\r\n\r\n'), bad],
    ['with two Upgrades', () => handshake().replace('\r\n\r\n', '\r\nUpgrade: h2c\r\n\r\n'), bad],
    ['with dots in its path', () => handshake({}, `GET ${target}/../x HTTP/1.1`), bad],
    ['with dots in disguise', () => handshake({}, `GET ${target}/%2e%2e/x HTTP/1.1`), bad],
    [
      'with extensions of 2 KiB',
      () => handshake({ 'Sec-WebSocket-Extensions': 'a'.repeat(2048) }),
      bad,
    ],
    [
      'with protocols of 2 KiB',
      () => handshake({ 'Sec-WebSocket-Protocol': 'a'.repeat(2048) }),
      bad,
    ],
    ['with unknown extensions', () => handshake({ 'Sec-WebSocket-Extensions': 'x; y=z' }), '101'],
    [
      'of a sandbox that does not exist',
      () => handshake({}, 'GET /sandboxes/sbx-2/AGENT_SERVER/ HTTP/1.1'),
      '401 unauthorized',
    ],
    [
      'of a port that is not exposed',
      () => handshake({}, 'GET /sandboxes/sbx-1/SSH/ HTTP/1.1'),
      '404 route-not-found',
    ],
    [
      'of the service itself',
      () => handshake({}, 'GET /api/v1/nothing HTTP/1.1'),
      '404 route-not-found',
    ],
    ['for something else', () => handshake({ Upgrade: 'h2c' }), '200'],
    ['for several protocols', () => handshake({ Upgrade: 'h2c, websocket' }), '200'],
    ['without Connection: Upgrade', () => handshake({ Connection: 'close' }), '200'],
  ])('%s', async (_case, bytes, verdict) => {
    const outcome = await sendRaw(gateway.port, bytes());
    expect(outcome.answers[0]?.status).toBe(Number(verdict.split(' ')[0]));
    if (verdict.includes(' ')) expect(verdictOf(outcome)).toBe(verdict);
    expectDecent(outcome);
    await eventually('it is gone at the agent, too', () => agent.sockets.size === 0);
  });
});

describe('a wrong session key', () => {
  const from = (address: string, headers: Headers = {}) => ({
    'X-Forwarded-For': address,
    ...headers,
  });
  const http = (address: string, shown: string | undefined) =>
    gateway.send('GET', `/sandboxes/sbx-1/AGENT_SERVER/x`, {
      key: null,
      headers: {
        'x-forwarded-for': address,
        ...(shown === undefined ? {} : { 'x-session-api-key': shown }),
      },
    });

  it('is limited for each address, by HTTP and by WebSocket together; a right one always passes', async () => {
    const wrong = 'a'.repeat(43);
    // At once: each of them waits for what this replica may not have heard of, and meanwhile the
    // next one would be allowed again.
    const attempts = Array.from({ length: 5 });
    const overHttp = attempts.map(() => http('192.0.2.1', wrong));
    const overWebSocket = attempts.map(() =>
      sendRaw(gateway.port, handshake(from('192.0.2.1', { 'X-Session-API-Key': wrong }))),
    );
    for (const answer of await Promise.all(overHttp)) expect(answer).toMatchObject({ status: 401 });
    for (const outcome of await Promise.all(overWebSocket))
      expect(verdictOf(outcome)).toBe('401 unauthorized');
    const refused = await http('192.0.2.1', wrong);
    expect(refused).toMatchObject({ status: 429, json: { code: 'too-many-attempts' } });
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    const outcome = await sendRaw(
      gateway.port,
      handshake(from('192.0.2.1', { 'X-Session-API-Key': wrong })),
    );
    expect(verdictOf(outcome)).toBe('429 too-many-attempts');
    expectDecent(outcome);

    expect(await http('192.0.2.2', wrong)).toMatchObject({ status: 401 });
    expect(
      (
        await gateway.open('GET', `/sandboxes/sbx-1/AGENT_SERVER/x`, {
          key: null,
          headers: { 'x-session-api-key': key, 'x-forwarded-for': '192.0.2.1' },
        })
      ).statusCode,
    ).toBe(200);
    expect(verdictOf(await sendRaw(gateway.port, handshake(from('192.0.2.1'))))).toBe('101');
    expect(
      await gateway.get('/api/v1/users/me', { headers: { 'x-forwarded-for': '192.0.2.1' } }),
    ).toMatchObject({ status: 200 });
  });

  it('that is none counts like one, in one count with API keys', async () => {
    for (let attempt = 0; attempt < 5; attempt++)
      expect(await http('192.0.2.3', undefined)).toMatchObject({ status: 401 });
    const asApi = () =>
      gateway.get('/api/v1/users/me', {
        key: 'co_wrong',
        headers: { 'x-forwarded-for': '192.0.2.3' },
      });
    for (let attempt = 0; attempt < 5; attempt++)
      expect(await asApi()).toMatchObject({ status: 401 });
    expect(await asApi()).toMatchObject({ status: 429 });
    expect(await http('192.0.2.3', undefined)).toMatchObject({ status: 429 });
  });

  it('is not the key that a client of the open paths shows', async () => {
    for (let attempt = 0; attempt < 20; attempt++) {
      const headers = { 'x-forwarded-for': '192.0.2.4' };
      expect(
        (await gateway.open('GET', '/sandboxes/sbx-1/AGENT_SERVER/alive', { key: null, headers }))
          .statusCode,
      ).toBe(200);
    }
  });
});

describe('without a key', () => {
  const alive = 'GET /sandboxes/sbx-1/AGENT_SERVER/alive HTTP/1.1\r\nHost: x\r\n';

  it('nothing is sent to an agent', async () => {
    expect(verdictOf(await sendRaw(gateway.port, `${alive}Content-Length: 5\r\n\r\nhello`))).toBe(
      bad,
    );
    expect(
      verdictOf(await sendRaw(gateway.port, `${alive}Transfer-Encoding: chunked\r\n\r\n`)),
    ).toBe(bad);
    expect(agent.seen).toEqual([]);
  });

  it('only few places are to be had, and none that a client with the key needs', async () => {
    agent.answer = (request, response) => {
      if (request.url !== '/alive') response.end('ok');
    };
    const sockets = await Promise.all(Array.from({ length: 3 }, () => openRaw(gateway.port)));
    for (const socket of sockets) socket.write(`${alive}\r\n`);
    await eventually('they are at the agent', () => agent.connections.size >= 3);
    expect(verdictOf(await sendRaw(gateway.port, `${alive}\r\n`))).toBe('503 too-many-connections');
    expect(
      verdictOf(
        await sendRaw(
          gateway.port,
          `GET ${target} HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: ${key}\r\n\r\n`,
        ),
      ),
    ).toBe('200');
    for (const socket of sockets) socket.destroy();
    agent.reset();
    await eventually(
      'there is room again',
      async () => verdictOf(await sendRaw(gateway.port, `${alive}\r\n`)) === '200',
    );
  });
});

describe('frames', () => {
  const open = async (): Promise<Socket> => {
    const socket = await openRaw(gateway.port);
    socket.write(handshake());
    await once(socket, 'data');
    return socket;
  };
  const close = '88';
  const masked = (start: string) => Buffer.from(`${start}00000000`, 'hex');

  it.each<[string, Buffer]>([
    ['that are not masked', Buffer.from('810161', 'hex')],
    ['of an unknown kind', masked('8380')],
    ['with bits that are reserved', masked('f180')],
    ['that continue with nothing', masked('8080')],
    ['of an exabyte', masked('82ff0fffffffffffffff')],
    ['of a negative length', masked('82ffffffffffffffffff')],
    ['that close with half a code', Buffer.concat([masked('8881'), Buffer.of(1)])],
    ['that ping with too much', masked('89fe0100')],
    ['that are no text', Buffer.concat([masked('8182'), Buffer.of(0xff, 0xfe)])],
    ['that are no frames', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
  ])('%s are the agent’s to refuse: it closes, and so does the gateway', async (_case, frame) => {
    const socket = await open();
    let text = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => (text = Buffer.concat([text, chunk])));
    socket.write(frame);
    if (text.length === 0) await Promise.race([once(socket, 'data'), once(socket, 'close')]);
    expect(text.toString('hex')).toMatch(new RegExp(`^(${close}|$)`));
    socket.end();
    await eventually('nothing is left', () => agent.sockets.size === 0);
    socket.destroy();
  });

  it('in a message without end go as fast as the agent takes them, and are kept nowhere', async () => {
    let wire: Duplex | undefined;
    agent.onWire = (opened) => (wire = opened.pause());
    const socket = await open();
    const before = process.memoryUsage().rss;
    const flood = Buffer.concat(
      Array.from({ length: 1000 }, () => Buffer.concat([masked('0090'), Buffer.alloc(16)])),
    );
    const pour = () => {
      while (socket.write(flood));
    };
    socket.on('drain', pour).write(masked('0180'));
    pour();
    let seen = -1;
    await eventually('all that lies between is full', () => {
      const isFull = socket.writableNeedDrain && socket.bytesWritten === seen;
      seen = socket.bytesWritten;
      return isFull;
    });
    expect(seen).toBeLessThan(64 * 1024 * 1024);
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024);
    socket.destroy();
    wire?.resume();
    await eventually('the agent is left', () => wire?.readableEnded === true || wire?.destroyed);
  });
});
