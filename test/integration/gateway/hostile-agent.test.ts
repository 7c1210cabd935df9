import { STATUS_CODES } from 'node:http';
import { gatewaySettings } from '../../../src/commands/gateway-wiring.ts';
import { readGatewayConfig } from '../../../src/config/cluster.ts';
import { eventually } from '../../support/eventually.ts';
import { HostileAgent } from '../../support/gateway/hostile-agent.ts';
import { openRaw, sendRaw, verdictOf, type RawOutcome } from '../../support/gateway/raw-http.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

const unreachable = '502 agent-unreachable';
const late = '504 agent-timeout';
const path = '/sandboxes/sbx-1/AGENT_SERVER';

let agent: HostileAgent;
let gateway: TestGateway;
/** A gateway with short times, for agents that do not answer and clients that do not read. */
let hasty: TestGateway;
let key: string;
beforeAll(async () => {
  agent = await HostileAgent.start();
  const settings = {
    ...gatewaySettings(readGatewayConfig({ MASTER_KEY_FILES: 'unused', OVERLOAD_DELAY_MS: '0' })),
    sandboxUrlTemplate: 'https://{sandbox}-{port}.agents.example',
  };
  gateway = await TestGateway.start(settings);
  hasty = await gateway.replica({
    ...settings,
    proxyLimits: { firstByteMs: 1000, idleMs: 1000, clientIdleMs: 1000 },
  });
  const sandbox = await gateway.addSandbox('sbx-1', { status: agent.status });
  await hasty.seen(hasty.caches.sandboxes, sandbox);
  key = gateway.sessionKeyOf(sandbox);
});
afterEach(async () => {
  expect(await gateway.get('/alive', { key: null })).toMatchObject({ status: 200 });
  // Nothing of the exchange is left: the agent's connections are closed as soon as no client waits
  // for them.
  for (const socket of agent.connections) socket.destroy();
});
afterAll(async () => {
  await Promise.all([gateway.stop(), hasty.stop()]);
  await agent.stop();
});

const ask = (target = `${path}/x`, headers = '', on = gateway): Promise<RawOutcome> =>
  sendRaw(
    on.port,
    `GET ${target} HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: ${key}\r\n${headers}\r\n`,
  );
const askInHaste = () => ask(undefined, undefined, hasty);
const withHeaders = (...headers: string[]) =>
  `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${headers.map((header) => `${header}\r\n`).join('')}\r\nok`;

describe('an agent that answers with', () => {
  it.each<[string, string, string]>([
    ['a plain answer, for comparison', withHeaders(), '200'],
    ['nothing', '', unreachable],
    ['what is no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n', unreachable],
    ['HTTP/0.9', '<html>hello</html>', unreachable],
    ['a status of zero', 'HTTP/1.1 000 Nothing\r\nContent-Length: 0\r\n\r\n', unreachable],
    ['a status of four digits', 'HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n', unreachable],
    ['a status in letters', 'HTTP/1.1 OK\r\n\r\n', unreachable],
    [
      'a switch of protocols without a request for it',
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n',
      unreachable,
    ],
    ['100 and nothing more', 'HTTP/1.1 100 Continue\r\n\r\n', unreachable],
    [
      'a few of these before its answer',
      `${'HTTP/1.1 102 Processing\r\n\r\n'.repeat(10)}${withHeaders()}`,
      '200',
    ],
    ['a status of its own', withHeaders().replace('200 OK', '399 Mine'), '399'],
    ['a header with a bare CR', withHeaders('X-A: a\rSet-Cookie: b=c'), unreachable],
    ['a header with a NUL', withHeaders('X-A: a\0b'), unreachable],
    ['a folded header', withHeaders('X-A: a\r\n Set-Cookie: b=c'), unreachable],
    ['a header without a name', withHeaders(': x'), unreachable],
    ['a header with a space in its name', withHeaders('Set-Cookie : a=b'), unreachable],
    ['lines that end with LF', withHeaders().replaceAll('\r', ''), unreachable],
    ['two lengths', withHeaders('Content-Length: 3'), unreachable],
    [
      'a length and chunks',
      withHeaders('Transfer-Encoding: chunked').replace('ok', '2\r\nok\r\n0\r\n\r\n'),
      unreachable,
    ],
    ['headers of 100 KiB', withHeaders(`X-A: ${'a'.repeat(100_000)}`), unreachable],
  ])('%s is understood as that, or not at all', async (_case, text, verdict) => {
    agent.answerWith(text);
    const outcome = await ask();
    expect(verdictOf(outcome)).toBe(verdict);
    expect(outcome.text).not.toMatch(/set-cookie|127\.0\.0\.1|HPE_|UND_ERR/i);
  });

  it.each<[string, string, string]>([
    ['less than it promised', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nless', 'less'],
    [
      'a chunk that is none',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nless\r\nxyz\r\n',
      'less',
    ],
    ['no last chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nless\r\n', 'less'],
  ])('%s is closed, so that no client takes it for whole', async (_case, text, part) => {
    agent.answerWith(text);
    const { text: got, isClosed, answers } = await ask();
    expect({ isClosed, answers }).toEqual({ isClosed: true, answers: [] });
    expect(got).toContain(part);
    expect(got).not.toContain('\r\n0\r\n\r\n');
  });

  it.each<[string, string]>([
    ['more than it promised', `${withHeaders()}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`],
    [
      'a body where there is none',
      `HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`,
    ],
    [
      'a body to what has not changed',
      `HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nevil`,
    ],
  ])('%s: no other client gets the rest', async (_case, text) => {
    agent.answerWith(text, false);
    const outcome = await sendRaw(
      gateway.port,
      [`${path}/a`, `${path}/b`].map(
        (target) => `GET ${target} HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: ${key}\r\n\r\n`,
      ),
      { answers: 2 },
    );
    expect(outcome.text).not.toContain('evil');
    agent.answerWith(withHeaders('X-Next: yes'));
    expect((await ask()).answers[0]).toMatchObject({ status: 200, headers: { 'x-next': 'yes' } });
  });

  it.each([
    ['a length of 204', 'HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n'],
    ['a body of 204', 'HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nevil'],
    ['a length of 205', 'HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n'],
    ['a body of 205', 'HTTP/1.1 205 Reset Content\r\nContent-Length: 4\r\n\r\nevil'],
    [
      'a body of 205 in chunks',
      'HTTP/1.1 205 Reset Content\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n',
    ],
    ['a length of 304', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n'],
  ])('%s is left out', async (_case, text) => {
    agent.answerWith(text);
    const first = `GET ${path}/x HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: ${key}\r\n\r\n`;
    const next = 'GET /alive HTTP/1.1\r\nHost: x\r\n\r\n';
    const outcome = await sendRaw(gateway.port, [first, next], { answers: 2 });
    const [answer, nextAnswer] = outcome.answers;
    expect(answer?.status).toBe(Number(text.slice('HTTP/1.1 '.length, 'HTTP/1.1 204'.length)));
    expect(answer?.headers).not.toHaveProperty('content-length');
    // The last chunk, where the response has chunks.
    expect(answer?.body.replace('0\r\n\r\n', '')).toBe('');
    expect(nextAnswer?.status).toBe(200);
    expect(outcome.text).not.toContain('evil');
  });

  it.each<[string, string, string, string]>([
    ['1xx', 'HTTP/1.1 102 Processing\r\n\r\n', '', unreachable],
    ['headers', 'X-A: aaaaaaaaaaaaaaaa\r\n', 'HTTP/1.1 200 OK\r\n', unreachable],
    ['one header', 'a', 'HTTP/1.1 200 OK\r\nX-A: ', unreachable],
    ['a status line', 'a', 'HTTP/1.1 200 ', late],
    ['line ends', '\r\n', '', late],
  ])('%s without end is not listened to for long', async (_case, flood, start, verdict) => {
    agent.answerWithout(flood, start);
    const before = process.memoryUsage().rss;
    expect(verdictOf(await (verdict === late ? askInHaste() : ask()))).toBe(verdict);
    await eventually('the agent is left', () => agent.connections.size === 0);
    // The garbage of other tests, and of the flooding agent in this process, is a part of it.
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
  });

  it('any status, to any method, makes a bounded number of series', async () => {
    const methods = ['GET', 'PROPFIND', 'M-SEARCH', 'UNLOCK'];
    for (let status = 200; status < 1000; status += 7) {
      agent.answerWith(withHeaders().replace('200 OK', `${status} Mine`));
      const method = methods[status % methods.length] ?? '';
      const { answers } = await sendRaw(
        gateway.port,
        `${method} ${path}/x HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: ${key}\r\n\r\n`,
      );
      expect(answers[0]?.status).toBe(status);
    }
    const { values } = await gateway.metrics.httpRequests.get();
    const valuesOf = (name: string) => new Set(values.map(({ labels }) => labels[name]));
    expect([...valuesOf('method')].sort()).toEqual(['GET', 'other']);
    const unknown = [...valuesOf('status')].filter(
      (status) => !Object.hasOwn(STATUS_CODES, String(status)),
    );
    expect(unknown.sort()).toEqual(['2xx', '3xx', '4xx', '5xx', 'other']);
  });

  it('nothing is not waited for without end', async () => {
    agent.say = () => undefined;
    expect(verdictOf(await askInHaste())).toBe(late);
    agent.answerWith('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nless', false);
    expect(await askInHaste()).toMatchObject({ isClosed: true, answers: [] });
  });

  it('a body without end costs only what its client takes, and ends with it', async () => {
    agent.answerWithout('a', 'HTTP/1.1 200 OK\r\n\r\n');
    const before = process.memoryUsage().rss;
    const socket = await openRaw(hasty.port);
    socket.pause();
    socket.write(`GET ${path}/x HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: ${key}\r\n\r\n`);
    await eventually(
      'the connection of a client that reads nothing is closed, and the agent left',
      () => agent.connections.size === 0,
    );
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024);
    socket.destroy();
  });
});

describe('what an agent says', () => {
  it.each([
    'Set-Cookie: session=evil; Domain=example; Path=/',
    'Set-Cookie2: a=b',
    'Access-Control-Allow-Origin: *',
    'Access-Control-Allow-Credentials: true',
    'Strict-Transport-Security: max-age=99999999; includeSubDomains',
    'Alt-Svc: h3="evil.example:443"',
    'Clear-Site-Data: "*"',
    'Service-Worker-Allowed: /',
    'Refresh: 0; url=https://evil.example/',
    'Report-To: {"endpoints":[{"url":"https://evil.example"}]}',
    'NEL: {"report_to":"x"}',
    'X-Accel-Redirect: /internal/secrets',
    'X-Sendfile: /etc/passwd',
    'X-Envoy-Immediate-Health-Check-Fail: true',
    'X-Content-Type-Options: sniff',
    'X-Request-Id: evil',
    'Proxy-Authenticate: Basic',
    'Trailer: Set-Cookie',
    'WWW-Authenticate: Basic realm="Your API key"',
    'Accept-CH: Sec-CH-UA',
    "Content-Security-Policy: script-src 'unsafe-inline'",
    'Connection: X-Content-Type-Options, Content-Security-Policy',
  ])('in the gateway’s name is left out: %s', async (header) => {
    agent.answerWith(withHeaders(header, 'Content-Type: text/html'));
    const { answers } = await ask();
    const [, value = ''] = header.split(/: (.*)/s);
    expect(answers[0]).toMatchObject({
      status: 200,
      headers: {
        'content-security-policy': 'sandbox',
        'x-content-type-options': 'nosniff',
        'content-type': 'text/html',
      },
    });
    expect(Object.values(answers[0]?.headers ?? {})).not.toContain(value);
  });

  it('in trailers is left out', async () => {
    agent.answerWith(
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nSet-Cookie: a=b\r\n\r\n',
    );
    expect((await ask()).text).not.toMatch(/set-cookie/i);
  });

  it.each([
    'https://evil.example/',
    '//evil.example/',
    'http://169.254.169.254/latest/meta-data/',
    'javascript:alert(1)',
    '/\\evil.example',
    'http:evil.example',
    '\\\\evil.example',
  ])('to a client without a key leads nowhere else: %s', async (location) => {
    agent.answerWith(`HTTP/1.1 302 Found\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`);
    for (const host of ['x', 'sbx-1-agent-server.agents.example']) {
      const target = host === 'x' ? `${path}/alive` : '/alive';
      const { answers } = await sendRaw(
        gateway.port,
        `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
      );
      expect(answers[0]?.status).toBe(302);
      expect(answers[0]?.headers).not.toHaveProperty('location');
    }
  });

  it('is never followed', async () => {
    agent.received = '';
    agent.answerWith(
      'HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n',
    );
    expect((await ask()).answers[0]).toMatchObject({ status: 302 });
    expect(agent.received.match(/GET /g)).toHaveLength(1);
  });
});

describe('what a client says to an agent', () => {
  it.each<[string, string]>([
    ['Authorization', 'Authorization: Bearer co_secret'],
    [
      'Authorization, declared to be hop-by-hop',
      'Connection: authorization\r\nAuthorization: Bearer co_secret',
    ],
    ['Proxy-Authorization', 'Proxy-Authorization: Basic secret'],
    ['cookies', 'Cookie: a=secret'],
    ['X-Forwarded-For of its own', 'X-Forwarded-For: secret'],
    ['X-Forwarded-Host of its own', 'X-Forwarded-Host: secret.example'],
    ['X-Forwarded-Anything', 'X-Forwarded-Anything: secret'],
    ['Forwarded', 'Forwarded: for=secret'],
    ['X-Real-IP', 'X-Real-IP: secret'],
    ['the way to initialise it', 'X-Init-API-Key: secret'],
    ['an upgrade', 'Connection: Upgrade\r\nUpgrade: secret'],
    [
      'settings of HTTP/2',
      'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: secret',
    ],
    ['what it declares to be hop-by-hop', 'Connection: X-Own\r\nX-Own: secret'],
    ['TE', 'TE: trailers, secret'],
  ])('does not reach it: %s', async (_case, header) => {
    agent.received = '';
    agent.answerWith(withHeaders());
    expect(verdictOf(await ask(`${path}/x`, `${header}\r\n`))).toBe('200');
    expect(agent.received).not.toContain('secret');
    expect(agent.received).toMatch(/^x-forwarded-for: 127\.0\.0\.1\r$/im);
  });

  it('can not take away what the gateway says', async () => {
    agent.received = '';
    agent.answerWith(withHeaders());
    await ask(
      `${path}/x`,
      'Connection: close, host, x-session-api-key, x-forwarded-for, x-request-id\r\n',
    );
    for (const name of ['host', 'x-session-api-key', 'x-forwarded-for', 'x-request-id']) {
      expect(agent.received.toLowerCase().split(`\r\n${name}: `)).toHaveLength(2);
    }
  });
});
