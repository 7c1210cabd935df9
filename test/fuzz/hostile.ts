import fc from 'fast-check';

/** Texts of a person with bad intentions, or of a broken client, in the place of ordinary texts. */
const texts: readonly string[] = [
  '',
  ' ',
  '.',
  '..',
  '../../../../etc/passwd',
  '..%2f..%2fsecrets',
  '/',
  '\\',
  '%',
  '%00',
  '%zz',
  '%c0%ae',
  '\u0000',
  'a\u0000b',
  '\r\nX-Injected: 1',
  '\u001b[31m',
  '\ufeff',
  '\ud800',
  '\udfff\ud800',
  '\u202egnirts',
  '👩‍👩‍👧‍👦',
  'é́́́́',
  '<script>alert(1)</script>',
  "'; DROP TABLE conversations; --",
  '${jndi:ldap://127.0.0.1/x}',
  '{{7*7}}',
  '__proto__',
  'constructor',
  'toString',
  'null',
  'undefined',
  'true',
  '0',
  '-1',
  '1e999',
  '0x10',
  '9007199254740993',
  'NaN',
  '[object Object]',
  'http://169.254.169.254/latest/meta-data',
  'http://127.0.0.1:6443/api',
  '--upload-pack=touch /tmp/x',
  'search',
  'count',
  'default',
  'x'.repeat(64),
  'x'.repeat(254),
  'x'.repeat(5000),
  'é'.repeat(2000),
  '1900-01-01T00:00:00Z',
  '9999-12-31T23:59:59.999999999Z',
  '2026-02-31',
  '2026-01-01T25:00:00Z',
  '00000000-0000-0000-0000-000000000000',
  'ffffffffffffffffffffffffffffffff',
  'eyJrIjoxfQ',
  'W10',
  'e30=',
];

export const hostileText: fc.Arbitrary<string> = fc.oneof(
  { arbitrary: fc.constantFrom(...texts), weight: 4 },
  { arbitrary: fc.string({ unit: 'binary', maxLength: 40 }), weight: 2 },
  { arbitrary: fc.string({ unit: 'grapheme', maxLength: 40 }), weight: 1 },
);

const nested = (depth: number): unknown =>
  JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`) as unknown;

/** JSON where something else is expected. */
export const hostileJson: fc.Arbitrary<unknown> = fc.oneof(
  hostileText,
  fc.constantFrom<unknown>(
    null,
    true,
    false,
    0,
    -0,
    -1,
    1.5,
    2 ** 31,
    2 ** 53,
    -(2 ** 63),
    1e308,
    [],
    {},
    [[]],
    [null],
    { '': '' },
  ),
  fc.constantFrom<unknown>(
    nested(200),
    Array.from({ length: 300 }, () => 'x'),
    'y'.repeat(300_000),
  ),
  fc.jsonValue({ maxDepth: 3 }),
);

const raw = (text: string) => Buffer.from(text);

/** Bodies that are not what their type says. */
export const hostileBody: fc.Arbitrary<Buffer> = fc.oneof(
  fc
    .constantFrom(
      ...[
        '',
        ' ',
        'null',
        'true',
        '"text"',
        '17',
        '[]',
        '{',
        '{"a":1',
        '{"a":1}}',
        "{'a':1}",
        '{"a":NaN}',
        '{"a":1e999}',
        '\ufeff{}',
      ],
      ...[
        '{"initial_message":null,"initial_message":{}}',
        '{"__proto__":{"owner":"bob"}}',
        '{"title":"\\ud800"}',
        '{"constructor":{}}',
      ],
      `${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`,
      `[${'0,'.repeat(20_000)}0]`,
      JSON.stringify({ title: 'z'.repeat(1_100_000) }),
    )
    .map(raw),
  fc.constantFrom(
    Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
    Buffer.from('{}', 'utf16le'),
    Buffer.from([0x1f, 0x8b]),
  ),
  fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
);

export const hostileHeaders: fc.Arbitrary<Readonly<Record<string, string>>> = fc.constantFrom<
  Readonly<Record<string, string>>
>(
  {},
  { 'content-type': 'text/plain' },
  { 'content-type': 'application/json; charset=utf-16' },
  { 'content-type': 'application/json; charset=latin1' },
  { 'content-type': 'application/x-www-form-urlencoded' },
  { 'content-type': 'multipart/form-data; boundary=x' },
  { 'content-type': '' },
  { 'content-encoding': 'gzip' },
  { 'content-encoding': 'br' },
  { 'content-encoding': 'zstd' },
  { accept: 'text/html' },
  { accept: 'application/xml;q=1' },
  { 'x-request-id': 'mine-1' },
  { 'x-request-id': 'not a sane token' },
  { 'x-request-id': 'x'.repeat(3000) },
  { 'x-forwarded-for': "127.0.0.1, '; --" },
  { 'x-http-method-override': 'DELETE' },
  { 'x-org-id': '../..' },
  { origin: 'https://ui.example' },
  { origin: 'https://evil.example' },
  { origin: 'null' },
  { host: 'evil.example' },
  { cookie: 'session=1; __proto__=1' },
  { 'if-none-match': '*' },
  { range: 'bytes=0-1' },
  { te: 'trailers' },
  { 'accept-encoding': 'gzip;q=1, *;q=0' },
);
