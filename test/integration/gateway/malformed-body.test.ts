import { randomBytes } from 'node:crypto';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { gatewaySettings } from '../../../src/commands/gateway-wiring.ts';
import { readGatewayConfig } from '../../../src/config/cluster.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { openRaw, expectDecent, sendRaw, verdictOf } from '../../support/gateway/raw-http.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

const start = '/api/v1/app-conversations';
const hello = { initial_message: { content: [{ type: 'text', text: 'Hello' }] } };
const helloText = JSON.stringify(hello);
/** A start with more in it, as raw text. */
const helloWith = (more: string) => `${helloText.slice(0, -1)},${more}}`;
const message = (text: string) =>
  `{"initial_message":{"content":[{"type":"text","text":"${text}"}]}}`;
const bomb = gzipSync(Buffer.alloc(256 * 1024 * 1024, ' '));

const bad = '400 malformed-request';
const noJson = '400 malformed-json';
const invalid = '422 invalid-request';
const wrongType = '415 unsupported-media-type';
const tooLarge = '413 body-too-large';

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await TestGateway.start({
    ...gatewaySettings(readGatewayConfig({ MASTER_KEY_FILES: 'unused', OVERLOAD_DELAY_MS: '0' })),
  });
});
afterAll(() => gateway.stop());

const request = (
  headers: Readonly<Record<string, string>>,
  body: string | Buffer,
  [method, path] = ['POST', start],
) => [
  [
    `${method} ${path} HTTP/1.1`,
    'Host: x',
    `Authorization: Bearer ${gateway.alice}`,
    ...Object.entries({
      'Content-Type': 'application/json',
      'Content-Length': String(Buffer.byteLength(body)),
      ...headers,
    }).map(([name, value]) => `${name}: ${value}`),
    '\r\n',
  ].join('\r\n'),
  typeof body === 'string' ? Buffer.from(body) : body,
];

describe('a body', () => {
  const packed = gzipSync(helloText);

  it.each<[string, Record<string, string>, string | Buffer, string]>([
    ['packed by gzip', { 'Content-Encoding': 'gzip' }, packed, '200'],
    ['packed by deflate', { 'Content-Encoding': 'deflate' }, deflateSync(helloText), '200'],
    ['packed by brotli', { 'Content-Encoding': 'BR' }, brotliCompressSync(helloText), '200'],
    ['packed twice', { 'Content-Encoding': 'gzip, gzip' }, gzipSync(packed), wrongType],
    ['packed by something unknown', { 'Content-Encoding': 'zstd' }, packed, wrongType],
    ['packed by what an object has too', { 'Content-Encoding': 'constructor' }, packed, wrongType],
    ['that is not packed as it says', { 'Content-Encoding': 'gzip' }, helloText, bad],
    ['packed in another way than it says', { 'Content-Encoding': 'br' }, packed, bad],
    ['packed without saying it', {}, packed, noJson],
    ['packed and truncated', { 'Content-Encoding': 'gzip' }, packed.subarray(0, -9), bad],
    [
      'packed with a wrong checksum',
      { 'Content-Encoding': 'gzip' },
      Buffer.concat([packed.subarray(0, -8), Buffer.alloc(8)]),
      bad,
    ],
    [
      'packed, and an object behind it',
      { 'Content-Encoding': 'gzip' },
      Buffer.concat([packed, gzipSync('{}')]),
      noJson,
    ],
    ['that unpacks to a quarter of a gigabyte', { 'Content-Encoding': 'gzip' }, bomb, tooLarge],
    [
      'that unpacks to that by brotli',
      { 'Content-Encoding': 'br' },
      brotliCompressSync(Buffer.alloc(2 ** 26)),
      tooLarge,
    ],

    [
      'in UTF-8, as it says',
      { 'Content-Type': 'application/json; charset="UTF-8"' },
      helloText,
      '200',
    ],
    [
      'of another charset',
      { 'Content-Type': 'application/json; charset=iso-8859-1' },
      helloText,
      wrongType,
    ],
    [
      'in UTF-16',
      { 'Content-Type': 'application/json; charset=utf-16' },
      Buffer.from(helloText, 'utf16le'),
      wrongType,
    ],
    ['in UTF-7', { 'Content-Type': 'application/json; charset=utf-7' }, helloText, wrongType],
    [
      'of two charsets',
      { 'Content-Type': 'application/json; charset=utf-8; charset=utf-7' },
      helloText,
      wrongType,
    ],
    ['in UTF-16 without saying it', {}, Buffer.from(`\uFEFF${helloText}`, 'utf16le'), noJson],
    ['behind a byte order mark', {}, `\uFEFF${helloText}`, '200'],
    ['behind two of them', {}, `\uFEFF\uFEFF${helloText}`, noJson],
    ['with bytes that are not UTF-8', {}, Buffer.from(message('\xff\xfe'), 'latin1'), noJson],
    ['with an overlong slash', {}, Buffer.from(message('\xc0\xaf'), 'latin1'), noJson],
    ['with half a character in UTF-8', {}, Buffer.from(message('\xed\xa0\x80'), 'latin1'), noJson],

    ['that is a form', { 'Content-Type': 'application/x-www-form-urlencoded' }, 'a=b', wrongType],
    [
      'that is a multipart form',
      { 'Content-Type': 'multipart/form-data; boundary=x' },
      '--x--',
      wrongType,
    ],
    [
      'that is XML',
      { 'Content-Type': 'application/xml' },
      '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>',
      wrongType,
    ],
    ['of two types', { 'Content-Type': 'application/json, text/plain' }, helloText, wrongType],
    [
      'of something like JSON',
      { 'Content-Type': 'application/json-patch+json' },
      helloText,
      wrongType,
    ],
    ['of a type that is none', { 'Content-Type': ';;;' }, helloText, wrongType],

    ['that is empty', {}, '', invalid],
    ['of white space', {}, ' \n ', noJson],
    ['that is null', {}, 'null', noJson],
    ['that is a number', {}, '1', noJson],
    ['that is an array', {}, '[]', invalid],
    ['with something behind it', {}, `${helloText}x`, noJson],
    ['with another one behind it', {}, `${helloText}${helloText}`, noJson],
    ['with a comment', {}, `/* a */${helloText}`, noJson],
    ['with a comma too many', {}, `${helloText.slice(0, -1)},}`, noJson],
    ['in single quotes', {}, "{'a':1}", noJson],
    ['with NaN', {}, helloWith('"pr_number":[NaN]'), noJson],
    ['with Infinity', {}, helloWith('"pr_number":[Infinity]'), noJson],
    ['with a leading zero', {}, helloWith('"pr_number":[01]'), noJson],
    ['with a number beyond all numbers', {}, helloWith('"pr_number":[1e400]'), invalid],
    [
      'with a number beyond the exact ones',
      {},
      helloWith('"pr_number":[9007199254740993]'),
      invalid,
    ],
    ['with minus zero', {}, helloWith('"pr_number":[-0]'), invalid],
    ['with a fraction', {}, helloWith('"pr_number":[1.5]'), invalid],
    [
      'with a number of a megabyte',
      {},
      helloWith(`"pr_number":[${'1'.repeat(1_000_000)}]`),
      invalid,
    ],
    ['with an exponent', {}, helloWith('"pr_number":[1e1]'), '200'],

    ['with a name twice', {}, helloWith('"title":"a","title":"b"'), noJson],
    ['with a name twice and the same value', {}, helloWith('"title":"a","title":"a"'), noJson],
    ['with a name twice, once in escapes', {}, helloWith('"title":"a","t\\u0069tle":"b"'), noJson],
    [
      'with a name twice deep inside',
      {},
      '{"initial_message":{"content":[{"type":"text","text":"a","text":"b"}]}}',
      noJson,
    ],
    ['with an unknown name twice', {}, helloWith('"x":1,"x":1'), noJson],
    ['with __proto__ twice', {}, helloWith('"__proto__":1,"__proto__":2'), noJson],
    [
      'with the same name in several objects',
      {},
      helloWith('"plugins":{"a":1},"processors":[{"a":1},{"a":1}]'),
      '200',
    ],
    ['with names in strings that resemble that', {}, message('{\\"a\\":1,\\"a\\":2}'), '200'],

    [
      'that is nested 10,000 levels deep',
      {},
      helloWith(`"x":${'['.repeat(10_000)}${']'.repeat(10_000)}`),
      noJson,
    ],
    ['of nothing but brackets', {}, '['.repeat(1_000_000), noJson],
    ['of half a million closed brackets', {}, '['.repeat(500_000) + ']'.repeat(500_000), noJson],
    [
      'nested in objects',
      {},
      helloWith(`"x":${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`),
      noJson,
    ],
    ['nested 60 levels deep', {}, helloWith(`"plugins":${'['.repeat(60)}${']'.repeat(60)}`), '200'],
    ['with __proto__', {}, helloWith('"__proto__":{"owner":"bob","title":"x"}'), invalid],
    ['with constructor', {}, helloWith('"constructor":{"prototype":{"owner":"bob"}}'), invalid],
    ['that has __proto__ instead of what is needed', {}, `{"__proto__":${helloText}}`, invalid],
    [
      'of 100,000 names',
      {},
      helloWith(Array.from({ length: 100_000 }, (_, index) => `"${index}":0`).join()),
      invalid,
    ],

    ['with half a surrogate pair in the text', {}, message('\\ud83d'), '200'],
    ['with half a pair in the title', {}, helloWith('"title":"\\ud83d"'), invalid],
    ['with the halves in the wrong order', {}, helloWith('"title":"\\ude00\\ud83d"'), invalid],
    ['with a whole pair', {}, helloWith('"title":"\\ud83d\\ude00"'), '200'],
    ['with half a pair in a name', {}, helloWith('"\\ud83d":1'), invalid],
    ['with NUL in the text', {}, message('a\\u0000b'), '200'],
    ['with NUL in the title', {}, helloWith('"title":"a\\u0000b"'), '200'],
    [
      'with a character of direction in the trigger',
      {},
      helloWith('"trigger":"a\\u202eb"'),
      invalid,
    ],
    ['with a line in the name of a branch', {}, helloWith('"selected_branch":"a\\nb"'), invalid],
    [
      'with a control character in the name of a branch',
      {},
      helloWith('"selected_branch":"a\\u007fb"'),
      invalid,
    ],
    ['with one in the model', {}, helloWith('"llm_model":"a\\u001bb"'), invalid],
    ['with one in the trigger', {}, helloWith('"trigger":"a\\u0008b"'), invalid],
    ['with one in the text', {}, message('\\u001b[31mred'), '200'],
    ['with a raw control character', {}, message('a\x01b'), noJson],
    ['with an escape that is none', {}, message('\\x41'), noJson],
    ['with a title that is too long', {}, helloWith(`"title":"${'a'.repeat(201)}"`), invalid],
    ['with a text that is too long', {}, message('ä'.repeat(131_073)), invalid],
    ['with the longest text', {}, message('a'.repeat(262_144)), '200'],
    ['over 1 MiB', {}, message('a'.repeat(1024 * 1024)), tooLarge],
  ])('%s', async (_case, headers, body, verdict) => {
    const outcome = await sendRaw(gateway.port, request(headers, body));
    expect(verdictOf(outcome)).toBe(verdict);
    expectDecent(outcome);
    expect(Object.prototype).not.toHaveProperty('owner');
  });

  it('says which name appears twice, and where', async () => {
    const answer = await gateway.send('POST', start, {
      rawBody: '{"initial_message":{"content":[{"type":"text"},{"type":"a","type":"b"}]}}',
    });
    expect(answer.json).toMatchObject({
      code: 'malformed-json',
      detail: 'The body has the same name twice in one object: initial_message.content[1].type',
    });
  });

  it('has half a surrogate pair replaced, also in what is stored', async () => {
    await gateway.send('POST', start, { rawBody: message('half \\ud83d, whole \\ud83d\\ude00') });
    const { items } = await gateway.client.list(conversations, { namespace });
    const texts = items.map(({ spec }) => JSON.stringify(spec));
    expect(texts.some((text) => text.includes('half \uFFFD, whole \u{1F600}'))).toBe(true);
    expect(texts.filter((text) => /\\ud8/i.test(text))).toEqual([]);
  });

  describe('with characters that a terminal obeys or that change the direction of text', () => {
    // A sequence of terminals, the two-byte form of such a one, and every direction character.
    const dirt = '\u001b\u0000\u0007\u009b\u202e\u200e\u200f\u2066\u2067\u2068\u2069\u061c';
    it('is stored without them: the title of a start', async () => {
      const conversation_id = newUuid(Date.now(), randomBytes);
      const answer = await gateway.post(start, {
        conversation_id,
        initial_message: { content: [{ type: 'text', text: 'Hello' }] },
        title: `cod${dirt}.exe`,
      });
      expect(answer.status).toBe(200);
      const stored = await gateway.client.get(conversations, namespace, conversation_id);
      expect(stored.spec.title).toBe('cod.exe');
    });

    it('is stored without them: a new title', async () => {
      const id = (await gateway.addConversation(newUuid(Date.now(), randomBytes))).metadata.name;
      const answer = await gateway.send('PATCH', `${start}/${id}`, {
        body: { title: ` cod${dirt}.exe ` },
      });
      expect(answer.json).toMatchObject({ title: 'cod.exe' });
      expect((await gateway.client.get(conversations, namespace, id)).spec.title).toBe('cod.exe');
    });

    it('is stored without them: the name of a key', async () => {
      const answer = await gateway.post('/api/keys', { name: `cod${dirt}.exe` });
      expect(answer.json).toMatchObject({ name: 'cod.exe' });
    });

    it('has a title without them where the message begins with them', async () => {
      const conversation_id = newUuid(Date.now(), randomBytes);
      const content = [{ type: 'text', text: `cod${dirt}.exe` }];
      await gateway.post(start, { conversation_id, initial_message: { content } });
      const answer = await gateway.get(`${start}?ids=${conversation_id}`);
      expect(answer.json).toMatchObject([{ title: 'cod.exe' }]);
    });
  });

  it('makes no other user the owner, whatever its names', async () => {
    const rawBody = helloWith('"owner":"bob","spec":{"owner":"bob"},"__proto__":{"owner":"bob"}');
    expect(await gateway.send('POST', start, { rawBody })).toMatchObject({ status: 422 });
    const { items } = await gateway.client.list(conversations, { namespace });
    expect(items.filter(({ spec }) => spec.owner !== 'alice')).toEqual([]);
  });

  it.each([
    ['POST', '/api/keys', '{"name":"\\u001b\\u202e"}'],
    ['POST', '/api/conversations', '{"initial_user_msg":"a","initial_user_msg":"b"}'],
    ['PATCH', `${start}/{id}`, '{"title":"\\u0000"}'],
    ['PATCH', `${start}/{id}`, '{"title":"a","title":"b"}'],
    ['PATCH', `${start}/{id}`, '{"tags":{"a":"\\u001b"}}'],
    ['PATCH', `${start}/{id}`, '{"tags":{"\\u001b":"a"}}'],
    ['PATCH', `${start}/{id}`, '{"title":"\\u001b"}'],
    ['PATCH', `${start}/{id}`, '{"tags":{"\\u2066":"a"}}'],
    ['POST', `${start}/{id}/send-message`, '{"content":[],"content":[]}'],
  ])('is refused everywhere: %s %s %s', async (method, path, body) => {
    const id = (await gateway.addConversation(newUuid(Date.now(), randomBytes))).metadata.name;
    const outcome = await sendRaw(
      gateway.port,
      request({}, body, [method, path.replace('{id}', id)]),
    );
    expect(outcome.answers[0]?.status).toBe(body.match(/"(\w+)":.*"\1":/) === null ? 422 : 400);
    expectDecent(outcome);
  });

  it('that stays away after its announcement is not waited for, once the answer is known', async () => {
    const socket = await openRaw(gateway.port);
    let text = '';
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
    const ended = new Promise((resolve) => socket.once('close', resolve));
    socket.write(
      `POST ${start} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{`,
    );
    const began = performance.now();
    await ended;
    expect(text).toContain('401 Unauthorized');
    // The gateway waits 60 s for a body that it wants.
    expect(performance.now() - began).toBeLessThan(40_000);
  });

  it('is read also when it comes in chunks of one byte', async () => {
    const chunks = `${Array.from(message('a'.repeat(200_000)), (byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`;
    const [head = ''] = request({ 'Transfer-Encoding': 'chunked' }, '');
    const parts = [String(head).replace(/Content-Length: 0\r\n/, ''), chunks];
    const outcomes = await Promise.all(
      Array.from({ length: 5 }, () => sendRaw(gateway.port, parts, { deadlineMs: 100_000 })),
    );
    expect(outcomes.map(verdictOf)).toEqual(Array.from({ length: 5 }, () => '200'));
  });

  it('costs next to nothing when it unpacks to a quarter of a gigabyte', async () => {
    const before = process.memoryUsage().rss;
    await Promise.all(
      Array.from({ length: 20 }, () =>
        sendRaw(gateway.port, request({ 'Content-Encoding': 'gzip' }, bomb)),
      ),
    );
    expect(process.memoryUsage().rss - before).toBeLessThan(150 * 1024 * 1024);
  });
});
