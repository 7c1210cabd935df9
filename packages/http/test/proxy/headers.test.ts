import fc from 'fast-check';
import { requestHeaders, responseHeaders, type ForwardingFacts } from '../../src/proxy/headers.ts';

const facts: ForwardingFacts = {
  clientAddress: '198.51.100.7',
  protocol: 'https',
  host: 'agents.example',
  prefix: '/sandboxes/sbx-1/AGENT_SERVER',
  requestId: 'r-1',
  authority: '10.0.0.9:8000',
  isTrusted: true,
  hasBody: true,
};
const pairs = (flat: readonly string[]) =>
  flat.flatMap((name, index) =>
    index % 2 === 0 ? [[name.toLowerCase(), flat[index + 1] ?? ''] as const] : [],
  );
const withheld = new Set(['x-key', 'x-withheld']);
const toUpstream = (
  raw: readonly string[],
  more: Partial<ForwardingFacts> = {},
  added: readonly string[] = ['x-key', 'the-key'],
) => Object.fromEntries(pairs(requestHeaders(raw, { ...facts, ...more }, { withheld, added })));
const toClient = (raw: readonly string[], more: Partial<ForwardingFacts> = {}) =>
  Object.fromEntries(pairs(responseHeaders(raw, { ...facts, ...more }, 200)));

describe('headers to an agent', () => {
  it('name the agent as the host, and describe the original request', () => {
    expect(toUpstream(['Host', 'evil', 'Accept', '*/*'])).toEqual({
      host: '10.0.0.9:8000',
      accept: '*/*',
      'x-forwarded-for': '198.51.100.7',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'agents.example',
      'x-forwarded-prefix': '/sandboxes/sbx-1/AGENT_SERVER',
      'x-key': 'the-key',
      'x-request-id': 'r-1',
    });
  });

  it.each([
    'Authorization',
    'Cookie',
    'Proxy-Authorization',
    'Connection',
    'Keep-Alive',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'HTTP2-Settings',
    'Expect',
    'Forwarded',
    'X-Real-IP',
    'X-Withheld',
    'X-Forwarded-Anything',
    'Sec-WebSocket-Key',
  ])('do not have the %s of the client', (name) => {
    expect(Object.keys(toUpstream([name, 'x', name.toUpperCase(), 'y']))).not.toContain(
      name.toLowerCase(),
    );
  });

  it('do not have what Connection names', () => {
    expect(
      toUpstream([
        'Connection',
        'close, X-Secret ,,x-other',
        'X-Secret',
        '1',
        'x-OTHER',
        '2',
        'connection',
        'x-third',
        'X-Third',
        '3',
      ]),
    ).toEqual(toUpstream([]));
  });

  it('have the added headers in spite of Connection, and none that is not right', () => {
    expect(toUpstream(['Connection', 'X-Key', 'X-Key', 'given'])).toMatchObject({
      'x-key': 'the-key',
    });
    expect(toUpstream(['X-Key', 'co_another'], {}, [])).not.toHaveProperty('x-key');
  });

  it('have the length of a body, where there is one', () => {
    expect(toUpstream(['Content-Length', '5'])).toMatchObject({ 'content-length': '5' });
    expect(toUpstream(['Content-Length', '0'], { hasBody: false })).not.toHaveProperty(
      'content-length',
    );
  });
});

describe('headers to a client', () => {
  it.each([
    'Set-Cookie',
    'Connection',
    'Keep-Alive',
    'Transfer-Encoding',
    'Upgrade',
    'Access-Control-Allow-Origin',
    'Access-Control-Anything',
    'Strict-Transport-Security',
    'Alt-Svc',
    'Clear-Site-Data',
    'Service-Worker-Allowed',
    'Server',
    'Date',
    'Refresh',
  ])('do not have the %s of the agent', (name) => {
    expect(toClient([name, 'x', name.toLowerCase(), 'y'])).toEqual(toClient([]));
  });

  it('keep what is the answer’s, repeated ones too', () => {
    const raw = [
      'Content-Type',
      'text/plain',
      'Vary',
      'a',
      'Vary',
      'b',
      'Content-Encoding',
      'gzip',
      'Content-Length',
      '3',
    ];
    expect(pairs(responseHeaders(raw, facts, 200))).toEqual(
      expect.arrayContaining([...pairs(raw)]),
    );
  });

  it('let nothing of an agent act under the gateway’s origin', () => {
    expect(toClient([])).toMatchObject({
      'content-security-policy': 'sandbox',
      'x-content-type-options': 'nosniff',
      'x-request-id': 'r-1',
    });
    expect(
      toClient(['Content-Security-Policy', "default-src 'self'"], { prefix: '' }),
    ).toMatchObject({ 'content-security-policy': "default-src 'self'" });
  });

  it('have one length at most', () => {
    expect(toClient(['Transfer-Encoding', 'chunked', 'Content-Length', '3'])).not.toHaveProperty(
      'content-length',
    );
  });

  it.each([204, 205, 304])('have no length with %d', (status) => {
    const raw = ['Content-Length', '3', 'ETag', '"a"'];
    expect(pairs(responseHeaders(raw, facts, status))).not.toContainEqual(['content-length', '3']);
    expect(pairs(responseHeaders(raw, facts, status))).toContainEqual(['etag', '"a"']);
  });

  it.each([
    ['/api/tools/', '/sandboxes/sbx-1/AGENT_SERVER/api/tools/'],
    ['http://10.0.0.9:8000/api/tools/', '/sandboxes/sbx-1/AGENT_SERVER/api/tools/'],
    ['http://10.0.0.9:8000', '/sandboxes/sbx-1/AGENT_SERVER/'],
    ['http://10.0.0.9:8000?x', '/sandboxes/sbx-1/AGENT_SERVER/?x'],
    ['//10.0.0.9:8000/x', '/sandboxes/sbx-1/AGENT_SERVER/x'],
    ['http://10.0.0.9:80001/', 'http://10.0.0.9:80001/'],
    ['https://elsewhere.example/', 'https://elsewhere.example/'],
    ['relative', 'relative'],
  ])('lead from %s to %s', (location, expected) => {
    expect(toClient(['Location', location])).toMatchObject({ location: expected });
  });

  it.each([
    'http://10.0.0.9:8000//evil.example/',
    'http://10.0.0.9:8000/\\evil.example/',
    'http://10.0.0.9:8000/\t/evil.example/',
    '//10.0.0.9:8000//evil.example/',
    '/\\evil.example/',
    '/\t/evil.example/',
  ])('lead from %j, a path of the agent, to no other host', (location) => {
    expect(toClient(['Location', location], { prefix: '' })).not.toHaveProperty('location');
    expect(toClient(['Location', location], { prefix: '', isTrusted: false })).not.toHaveProperty(
      'location',
    );
  });
});

it('whatever headers there are, no secret goes either way', () => {
  const name = fc.constantFrom(
    'Authorization',
    'authorization',
    'COOKIE',
    'Set-Cookie',
    'Connection',
    'X-A',
    'X-Key',
    'Proxy-Authorization',
  );
  const value = fc.constantFrom('secret', 'x-a', 'close', 'X-A, authorization', ', ,');
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value), { maxLength: 10 }), (list) => {
      const raw = list.flat();
      const out = [...pairs(requestHeaders(raw, facts, { withheld, added: [] }))];
      expect(
        out.filter(([key]) => /^(authorization|cookie|connection|proxy-.*|x-key)$/.test(key)),
      ).toEqual([]);
      const named = list
        .filter(([key]) => key === 'Connection')
        .some(([, text]) => /x-a/i.test(text));
      if (named) expect(out.filter(([key]) => key === 'x-a')).toEqual([]);
      expect(
        pairs(responseHeaders(raw, facts, 200)).filter(
          ([key]) => key === 'set-cookie' || key === 'connection',
        ),
      ).toEqual([]);
    }),
  );
});
