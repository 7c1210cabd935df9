import { readGatewayConfig } from '../../../src/config/cluster.ts';
import { gatewaySettings } from '../../../src/commands/gateway-wiring.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';
import { expectDecent, sendRaw, verdictOf } from '../../support/gateway/raw-http.ts';

const bad = '400 malformed-request';
const ended = { isClosed: true };

describe('a request that is hardly HTTP', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start({
      ...gatewaySettings(readGatewayConfig({ MASTER_KEY_FILES: 'unused', OVERLOAD_DELAY_MS: '0' })),
    });
  });
  afterEach(async () => {
    // Whatever came before: the next one is served.
    expect(await gateway.get('/alive', { key: null })).toMatchObject({ status: 200 });
  });
  afterAll(() => gateway.stop());

  const host = 'Host: x\r\n';
  const end = 'Connection: close\r\n\r\n';
  const me = (headers = '', target = '/api/v1/users/me') =>
    `GET ${target} HTTP/1.1\r\n${host}Authorization: Bearer ${gateway.alice}\r\n${headers}${end}`;
  const post = (headers: string, body: string) =>
    `POST /api/v1/app-conversations HTTP/1.1\r\n${host}Authorization: Bearer ${gateway.alice}\r\nContent-Type: application/json\r\n${headers}\r\n${body}`;
  const chunked = 'Transfer-Encoding: chunked\r\n';
  const many = (count: number) =>
    Array.from({ length: count }, (_, index) => `x${index}:\r\n`).join('');

  it.each<[string, () => string, string]>([
    ['a plain request, for comparison', () => me(), '200'],
    ['no HTTP at all', () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', bad],
    ['only line ends', () => '\r\n\r\n\r\n\r\nx\r\n\r\n', bad],
    ['HTTP/0.9', () => 'GET /alive\r\n\r\n', bad],
    ['HTTP/1.0 without a Host', () => 'GET /alive HTTP/1.0\r\n\r\n', '200'],
    ['the preface of HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', bad],
    ['HTTP/9.9', () => `GET /alive HTTP/9.9\r\n${host}\r\n`, bad],
    [
      'an upgrade to h2c',
      () => me('Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n'),
      '200',
    ],
    ['an upgrade to something unknown', () => me('Upgrade: TLS/1.0\r\n'), '200'],
    [
      'an upgrade to a WebSocket where there is none',
      () => me('Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'),
      '200',
    ],
    ['an unknown method', () => `HACK /alive HTTP/1.1\r\n${host}${end}`, bad],
    ['a method in lower case', () => `get /alive HTTP/1.1\r\n${host}${end}`, bad],
    [
      'a known method that no route serves',
      () => `PROPFIND /alive HTTP/1.1\r\n${host}${end}`,
      '405 method-not-allowed',
    ],
    ['TRACE', () => `TRACE /alive HTTP/1.1\r\n${host}${end}`, '405 method-not-allowed'],
    [
      'CONNECT to another host',
      () => `CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: 169.254.169.254:80\r\n\r\n`,
      'closed',
    ],
    ['CONNECT to a path', () => `CONNECT /alive HTTP/1.1\r\n${host}\r\n`, 'closed'],
    ['a method overridden by a header', () => me('X-HTTP-Method-Override: DELETE\r\n'), '200'],
    ['OPTIONS *', () => `OPTIONS * HTTP/1.1\r\n${host}${end}`, '404 route-not-found'],
    ['GET *', () => `GET * HTTP/1.1\r\n${host}${end}`, bad],

    ['no Host', () => `GET /alive HTTP/1.1\r\n${end}`, bad],
    ['two Hosts', () => `GET /alive HTTP/1.1\r\n${host}Host: y\r\n${end}`, bad],
    ['the same Host twice', () => `GET /alive HTTP/1.1\r\n${host}${host}${end}`, bad],
    ['a Host with a path', () => `GET /alive HTTP/1.1\r\nHost: x/y\r\n${end}`, bad],
    ['a Host with a user', () => `GET /alive HTTP/1.1\r\nHost: a@b\r\n${end}`, bad],
    ['a Host with a space', () => `GET /alive HTTP/1.1\r\nHost: a b\r\n${end}`, bad],
    ['a Host of two', () => `GET /alive HTTP/1.1\r\nHost: a, b\r\n${end}`, bad],
    ['a Host that is not ASCII', () => `GET /alive HTTP/1.1\r\nHost: \xc3\xa4\r\n${end}`, bad],
    ['a Host in IPv6', () => `GET /alive HTTP/1.1\r\nHost: [::1]:3000\r\n${end}`, '200'],
    ['a target in absolute form', () => me('', 'http://x/api/v1/users/me'), '200'],
    ['one of another host', () => me('', 'http://y/api/v1/users/me'), bad],
    ['one with a user', () => me('', 'http://a@x/api/v1/users/me'), bad],
    ['one of another scheme', () => me('', 'file:///etc/passwd'), bad],
    ['a target in authority form', () => me('', 'x:80'), bad],
    ['a target without a slash', () => me('', 'alive'), bad],
    ['an empty target', () => `GET  HTTP/1.1\r\n${host}${end}`, bad],
    ['a target with a space', () => me('', '/alive /x'), bad],
    ['a target with a fragment', () => me('', '/alive#x'), bad],
    ['a target with bytes that are not ASCII', () => me('', '/api/v1/\xff\xfe'), bad],
    ['a target with a NUL', () => me('', '/alive\0x'), bad],

    ['a space before a colon', () => me('X-A : b\r\n'), bad],
    ['a header without a colon', () => me('X-A\r\n'), bad],
    ['a header without a name', () => me(': b\r\n'), bad],
    ['a name with a space', () => me('X A: b\r\n'), bad],
    ['a name that is not ASCII', () => me('X-\xe4: b\r\n'), bad],
    ['a NUL in a value', () => me('X-A: a\0b\r\n'), bad],
    ['a control character in a value', () => me('X-A: a\x01b\r\n'), bad],
    ['a bare CR in a value', () => me('X-A: a\rX-B: c\r\n'), bad],
    ['a folded header', () => me('X-A: a\r\n b\r\n'), bad],
    ['a first header that is folded', () => `GET /alive HTTP/1.1\r\n ${host}${end}`, bad],
    ['lines that end with LF', () => `GET /alive HTTP/1.1\nHost: x\nConnection: close\n\n`, bad],
    ['a last line that ends with LF', () => `GET /alive HTTP/1.1\r\n${host}\n`, bad],
    ['bytes beyond ASCII in a value', () => me('X-A: \xff\xfe\r\n'), '200'],
    ['200 headers', () => me(many(197)), '200'],
    ['more', () => me(many(198)), '431 headers-too-large'],
    ['headers over 16 KiB', () => me(`X-A: ${'a'.repeat(17_000)}\r\n`), '431 headers-too-large'],
    [
      'headers without end',
      () => `GET /alive HTTP/1.1\r\n${host}${many(4000)}`,
      '431 headers-too-large',
    ],
    ['a line without end', () => `GET /${'a'.repeat(100_000)}`, '431 headers-too-large'],
    ['two keys', () => me('Authorization: Bearer other\r\n'), bad],
    [
      'two keys of the other kind',
      () => me('X-Session-API-Key: a\r\nX-Session-API-Key: b\r\n'),
      bad,
    ],

    ['two lengths', () => post('Content-Length: 2\r\nContent-Length: 3\r\n', '{} '), bad],
    ['the same length twice', () => post('Content-Length: 2\r\nContent-Length: 2\r\n', '{}'), bad],
    ['two lengths in a list', () => post('Content-Length: 2, 2\r\n', '{}'), bad],
    ['a negative length', () => post('Content-Length: -1\r\n', '{}'), bad],
    ['a length with a sign', () => post('Content-Length: +2\r\n', '{}'), bad],
    ['a length in hex', () => post('Content-Length: 0x2\r\n', '{}'), bad],
    [
      'a length that no number holds',
      () => post('Content-Length: 99999999999999999999999\r\n', '{}'),
      bad,
    ],
    [
      'a length of a terabyte',
      () => post('Content-Length: 1099511627776\r\n', '{}'),
      '413 body-too-large',
    ],
    [
      'a length and chunks',
      () => post(`Content-Length: 2\r\n${chunked}`, '2\r\n{}\r\n0\r\n\r\n'),
      bad,
    ],
    [
      'chunks and a length',
      () => post(`${chunked}Content-Length: 2\r\n`, '2\r\n{}\r\n0\r\n\r\n'),
      bad,
    ],
    ['chunks twice', () => post(chunked + chunked, '0\r\n\r\n'), bad],
    [
      'chunks with a space before the colon',
      () => post('Transfer-Encoding : chunked\r\n', '0\r\n\r\n'),
      bad,
    ],
    [
      'chunks behind a tab',
      () => post('Transfer-Encoding:\tchunked\r\n', '2\r\n{}\r\n0\r\n\r\n'),
      '422 invalid-request',
    ],
    [
      'chunks of an unknown spelling',
      () => post('Transfer-Encoding: xchunked\r\n', '0\r\n\r\n'),
      bad,
    ],
    ['chunks that are identity', () => post('Transfer-Encoding: identity\r\n', '{}'), bad],
    [
      'chunks that are packed',
      () => post('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'),
      bad,
    ],
    [
      'chunks and then something',
      () => post('Transfer-Encoding: chunked, identity\r\n', '0\r\n\r\n'),
      bad,
    ],
    ['a size of a chunk that is none', () => post(chunked, 'xyz\r\n{}\r\n0\r\n\r\n'), bad],
    ['a negative size', () => post(chunked, '-2\r\n{}\r\n0\r\n\r\n'), bad],
    ['a size with 0x', () => post(chunked, '0x2\r\n{}\r\n0\r\n\r\n'), bad],
    [
      'a size that no number holds',
      () => post(chunked, 'ffffffffffffffffff\r\n{}\r\n0\r\n\r\n'),
      bad,
    ],
    ['a chunk that is longer than its size', () => post(chunked, '1\r\n{}\r\n0\r\n\r\n'), bad],
    ['a chunk with a bare LF', () => post(chunked, '2\n{}\n0\n\n'), bad],
    ['small extensions', () => post(chunked, '2;a=b\r\n{}\r\n0\r\n\r\n'), '422 invalid-request'],
    [
      'extensions without end',
      () => post(chunked, `2;${'a'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`),
      '413 body-too-large',
    ],
    [
      'a trailer that is a header',
      () => post(chunked, '2\r\n{}\r\n0\r\nAuthorization: Bearer x\r\n\r\n'),
      '422 invalid-request',
    ],
    [
      'trailers without end',
      () => post(chunked, `2\r\n{}\r\n0\r\n${many(4000)}\r\n`),
      '431 headers-too-large',
    ],
    ['chunks in HTTP/1.0', () => post(chunked, '0\r\n\r\n').replace('HTTP/1.1', 'HTTP/1.0'), bad],
    [
      'a body over 1 MiB in chunks',
      () => post(chunked, `200000\r\n${'a'.repeat(2 ** 21)}\r\n0\r\n\r\n`),
      '413 body-too-large',
    ],

    [
      '100-continue',
      () => post('Expect: 100-continue\r\nContent-Length: 2\r\n', '{}'),
      '422 invalid-request',
    ],
    [
      'another expectation',
      () => post('Expect: a miracle\r\nContent-Length: 2\r\n', '{}'),
      '417 expectation-failed',
    ],
    ['a range', () => me('Range: bytes=0-0,1-1,2-2\r\n'), '200'],
    [
      'conditions',
      () => me('If-None-Match: *\r\nIf-Match: "x"\r\nIf-Modified-Since: x\r\nIf-Range: "x"\r\n'),
      '200',
    ],
    ['a body to a GET', () => `${me('Content-Length: 2\r\n')}{}`, '200'],
  ])('%s', async (_case, bytes, verdict) => {
    const outcome = await sendRaw(gateway.port, bytes());
    expect(verdictOf(outcome)).toBe(verdict);
    expectDecent(outcome);
  });

  it.each<[string, (smuggled: string) => string]>([
    [
      'a body that a length hides',
      (smuggled) => post(`Content-Length: 4\r\n${chunked}`, `2\r\n{}\r\n0\r\n\r\n${smuggled}`),
    ],
    [
      'bytes after a body without a length',
      (smuggled) => post('Transfer-Encoding: identity\r\n', `{}${smuggled}`),
    ],
    [
      'bytes after chunks of HTTP/1.0',
      (smuggled) => post(chunked, `0\r\n\r\n${smuggled}`).replace('HTTP/1.1', 'HTTP/1.0'),
    ],
    [
      'bytes after a second Host',
      (smuggled) => `GET /alive HTTP/1.1\r\n${host}Host: y\r\nContent-Length: 0\r\n\r\n${smuggled}`,
    ],
    [
      'bytes after a malformed head',
      (smuggled) => `GET /alive HTTP/1.1\r\n${host}X : y\r\n\r\n${smuggled}`,
    ],
  ])('never serves %s', async (_case, bytes) => {
    const name = `smuggled-${Math.random().toString(36).slice(2)}`;
    const smuggled = `POST /api/keys HTTP/1.1\r\n${host}Authorization: Bearer ${gateway.alice}\r\nContent-Type: application/json\r\nContent-Length: ${name.length + 11}\r\n\r\n{"name":"${name}"}`;
    const outcome = await sendRaw(gateway.port, bytes(smuggled), { answers: 2 });
    expect(outcome).toMatchObject(ended);
    expectDecent(outcome);
    expect((await gateway.get('/api/keys')).text).not.toContain(name);
  });

  it('answers requests that come at once in their order', async () => {
    const text = Array.from(
      { length: 20 },
      (_, index) => `GET /api/v1/nothing HTTP/1.1\r\n${host}X-Request-Id: r-${index}\r\n\r\n`,
    ).join('');
    const { answers } = await sendRaw(gateway.port, text, { answers: 20 });
    expect(answers.map(({ headers }) => headers['x-request-id'])).toEqual(
      Array.from({ length: 20 }, (_, index) => `r-${index}`),
    );
  });

  it('closes a connection on which more than 64 wait for their answers', async () => {
    const one = `GET /api/v1/app-conversations/search HTTP/1.1\r\n${host}Authorization: Bearer ${gateway.alice}\r\n\r\n`;
    const outcome = await sendRaw(gateway.port, one.repeat(200), { answers: 200 });
    expect(outcome).toMatchObject(ended);
  });
});
