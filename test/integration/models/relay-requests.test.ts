import { constants, gzipSync, brotliCompressSync } from 'node:zlib';
import { eventually } from '../../support/eventually.ts';
import { sendRaw } from '../../support/gateway/raw-http.ts';
import { HeldClock } from '../../support/held-clock.ts';
import {
  apiNames,
  apis,
  askModel,
  maxOf,
  refusalIn,
  type Access,
  type AgentAnswer,
  type ApiName,
  type ModelRequest,
} from '../../support/models/agent-call.ts';
import { modelKey, RelayScene } from '../../support/models/relay-scene.ts';

const [idleMs, totalMs] = [600_000, 3_600_000];
const mebibyte = 1_048_576;
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

/** Whatever came before: all calls that a sandbox may make at once are served. */
async function expectServing(): Promise<void> {
  const calls = Array.from({ length: 64 }, () =>
    askModel(alice, 'chat', { fields: maxOf('chat', 5) }),
  );
  expect(new Set((await Promise.all(calls)).map(({ status }) => status))).toEqual(new Set([200]));
}
const compressed = (encoding: string, bytes: Buffer): ModelRequest => ({
  headers: { 'content-encoding': encoding },
  body: bytes,
});
const lazily = <T>(make: () => T): (() => T) => {
  let made: T | undefined;
  return () => (made ??= make());
};
const gzipBomb = lazily(() => gzipSync(Buffer.alloc(300 * mebibyte), { level: 1 }));
const brotliBomb = lazily(() =>
  brotliCompressSync(Buffer.alloc(200 * mebibyte), {
    params: { [constants.BROTLI_PARAM_QUALITY]: 1 },
  }),
);
const deep = (depth: number): string =>
  `{"model":"m","messages":${'['.repeat(depth)}${']'.repeat(depth)}}`;

const bad: readonly (readonly [
  what: string,
  request: () => ModelRequest,
  status: number,
  says: RegExp,
])[] = [
  ['no body', () => ({ body: '' }), 400, /valid JSON/],
  ['broken JSON', () => ({ body: '{"model": "m", "messages": [' }), 400, /valid JSON/],
  ['JSON with more behind it', () => ({ body: '{"model":"m"}{"model":"n"}' }), 400, /JSON|twice/],
  ['a list', () => ({ body: '[{"model":"m"}]' }), 400, /must be a JSON object/],
  ['a number', () => ({ body: '1e999' }), 400, /must be a JSON object/],
  ['a byte order mark', () => ({ body: '\ufeff{"model":"m"}' }), 400, /valid JSON/],
  ['UTF-16', () => ({ body: Buffer.from('{"model":"m"}', 'utf16le') }), 400, /JSON/],
  [
    'bytes that are not UTF-8',
    () => ({ body: Buffer.from('{"model":"\xff"}', 'latin1') }),
    400,
    /UTF-8/,
  ],
  ['deep lists', () => ({ body: deep(100_000) }), 400, /at most 256 levels/],
  ['deep lists, almost', () => ({ body: deep(5_000_000) }), 400, /at most 256 levels/],
  [
    'a name twice',
    () => ({ body: '{"model":"m","model":"n","messages":[]}' }),
    400,
    /occurs twice/,
  ],
  [
    'a name twice, once escaped',
    () => ({ body: '{"model":"m","mod\\u0065l":"n"}' }),
    400,
    /occurs twice/,
  ],
  ['many values', () => ({ body: `[${'1,'.repeat(2_000_000)}1]` }), 400, /at most 100000/],
  ['another type', () => ({ headers: { 'content-type': 'text/plain' } }), 400, /application\/json/],
  [
    'a form',
    () => ({ headers: { 'content-type': 'multipart/form-data; boundary=x' } }),
    400,
    /application\/json/,
  ],
  [
    'another charset',
    () => ({ headers: { 'content-type': 'application/json; charset=utf-16' } }),
    400,
    /UTF-8/,
  ],
  [
    'an unknown compression',
    () => compressed('zstd', Buffer.from('x')),
    400,
    /gzip, deflate or br/,
  ],
  [
    'two compressions',
    () => compressed('gzip, gzip', Buffer.from('x')),
    400,
    /gzip, deflate or br/,
  ],
  [
    'no gzip at all',
    () => compressed('gzip', Buffer.from('{"model":"m"}')),
    400,
    /could not be read/,
  ],
  [
    'half of a gzip',
    () => compressed('gzip', gzipSync('x'.repeat(99_999)).subarray(0, 50)),
    400,
    /could not be read/,
  ],
  ['50 MB', () => ({ body: Buffer.alloc(50_000_000, ' ') }), 413, /larger than 32 MiB/],
  ['a bomb of gzip', () => compressed('gzip', gzipBomb()), 413, /larger than 32 MiB/],
  ['a bomb of br', () => compressed('br', brotliBomb()), 413, /larger than 32 MiB/],
];

describe.each(apiNames)('a request of %s', (api) => {
  it('that is bad is refused in the shape of the API, and costs nothing', async () => {
    for (const [what, request, status, says] of bad) {
      const got = await askModel(alice, api, request());
      expect([what, got.status]).toEqual([what, status]);
      expect(refusalIn(api, got)).toMatch(says);
    }
    expect(scene.provider.calls).toEqual([]);
    expect(scene.reservations).toEqual([]);
    await expectServing();
    await scene.spentInAll();
  });

  it('that is compressed reaches the provider without its compression', async () => {
    const body = JSON.stringify({ ...apis[api].body, ...maxOf(api, 5) });
    expect(await askModel(alice, api, compressed('gzip', gzipSync(body)))).toMatchObject({
      status: 200,
    });
    const [call] = scene.provider.calls;
    expect(call?.bytes.toString()).toBe(body);
    expect(call?.headers).not.toHaveProperty('content-encoding');
  });

  it('that exceeds the budget is not sent, and clients do not send it again', async () => {
    scene.budget(0.000_1);
    const got = await askModel(alice, api);
    expect(got.status).toBe(api === 'responses' ? 400 : 402);
    expect(got.headers).toMatchObject({ 'x-should-retry': 'false' });
    expect(refusalIn(api, got)).toMatch(/^The budget of \$0\.0001 is used up/);
    expect(scene.provider.calls).toEqual([]);
  });
});

it('takes no more memory for large bodies than they have bytes', async () => {
  const before = process.memoryUsage().rss;
  const large = Buffer.alloc(50_000_000, ' ');
  const results = await Promise.all(
    Array.from({ length: 20 }, () => askModel(alice, 'chat', { body: large })),
  );
  expect(new Set(results.map(({ status }) => status))).toEqual(new Set([413]));
  // The clients of this process have one body, and a part of it in each of their sockets.
  expect(process.memoryUsage().rss - before).toBeLessThan(400 * mebibyte);
});

describe('bytes that are hardly HTTP', () => {
  const head = (path = 'chat/completions', headers = '') =>
    `POST ${new URL(alice.baseUrl).pathname}/${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${alice.token}\r\nContent-Type: application/json\r\n${headers}\r\n`;
  const body = JSON.stringify({ ...apis.chat.body, max_tokens: 5 });
  const port = () => Number(new URL(alice.baseUrl).port);
  const hex = body.length.toString(16);

  it.each<[string, string, readonly number[]]>([
    ['a length', `Content-Length: ${body.length}\r\n|${body}`, [200]],
    ['chunks', `Transfer-Encoding: chunked\r\n|${hex}\r\n${body}\r\n0\r\n\r\n`, [200]],
    [
      'chunks of one byte',
      `Transfer-Encoding: chunked\r\n|${Array.from(body)
        .map((each) => `1\r\n${each}\r\n`)
        .join('')}0\r\n\r\n`,
      [200],
    ],
    [
      'a length and chunks',
      `Content-Length: 5\r\nTransfer-Encoding: chunked\r\n|${hex}\r\n${body}\r\n0\r\n\r\n`,
      [400],
    ],
    ['two lengths', `Content-Length: 5\r\nContent-Length: 6\r\n|${body}`, [400]],
    ['a negative length', `Content-Length: -1\r\n|${body}`, [400]],
    [
      'chunks in another case',
      `Transfer-Encoding: Chunked, identity\r\n|${hex}\r\n${body}\r\n0\r\n\r\n`,
      [400],
    ],
    ['a folded header', `X-A: a\r\n b: c\r\nContent-Length: ${body.length}\r\n|${body}`, [400]],
    ['a bad size of a chunk', `Transfer-Encoding: chunked\r\n|zz\r\n${body}\r\n0\r\n\r\n`, [400]],
    [
      'a huge size of a chunk',
      `Transfer-Encoding: chunked\r\n|ffffffffffffffffff\r\n${body}\r\n0\r\n\r\n`,
      [400],
    ],
    ['a space before a colon', `Content-Length : ${body.length}\r\n|${body}`, [400]],
    ['two tokens', `Authorization: Bearer x\r\nContent-Length: ${body.length}\r\n|${body}`, [400]],
    [
      'a key twice',
      `X-Api-Key: x\r\nX-Api-Key: y\r\nContent-Length: ${body.length}\r\n|${body}`,
      [401],
    ],
    [
      'a request in the body',
      `Content-Length: 0\r\n|GET /alive HTTP/1.1\r\nHost: x\r\n\r\n`,
      [400, 200],
    ],
  ])('with %s are answered once, and smuggle nothing', async (_what, text, statuses) => {
    const [headers = '', rest = ''] = text.split('|');
    const { answers, text: all } = await sendRaw(port(), head('chat/completions', headers) + rest, {
      answers: statuses.length,
    });
    expect(answers.map(({ status }) => status)).toEqual(statuses);
    expect(all).not.toContain(modelKey);
    expect(scene.provider.calls.length).toBe(
      statuses.filter((status) => status === 200).length === 1 && statuses.length === 1 ? 1 : 0,
    );
    for (const { bytes } of scene.provider.calls) expect(bytes.toString()).toBe(body);
    await scene.spentInAll();
  });

  it('in a pipeline are answered one after the other, each counted', async () => {
    const one = head('chat/completions', `Content-Length: ${body.length}\r\n`) + body;
    const { answers } = await sendRaw(port(), one.repeat(10), { answers: 10 });
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(scene.provider.peakUnderWay).toBe(1);
    expect(await scene.spentInAll()).toBe(scene.provider.chargedNanos);
  });

  /** Paths that a provider may read in another way than the relay. */
  const paths = [
    'chat/completions/',
    '/chat/completions',
    'chat//completions',
    '../../../other/conv/chat/completions',
    'chat%2fcompletions',
    'chat/completions%00',
    'chat\\completions',
    'x/..\\..\\..\\admin',
    'x/..%5c..%5c..%5cadmin',
    'chat/completions%23',
    'chat/completions;a=b',
    '..;/..;/admin',
    '%63hat/completions',
    'Chat/Completions',
    'v1beta/models/m:generateContent%3Falt=sse',
    'v1beta/models/../../x:generateContent',
    'v1beta/models/a%2f..%2fb:generateContent',
    'v1beta/models/m%252fn:generateContent',
  ];
  const statusOf = async (path: string): Promise<number | undefined> => {
    const text = head(path, `Content-Length: ${body.length}\r\n`) + body;
    const { answers } = await sendRaw(port(), text);
    return answers[0]?.status;
  };

  it.each(paths)('with the path %s reach no provider under a budget', async (path) => {
    for (const passThrough of [false, true]) {
      scene.template({ models: { passThrough } });
      expect([400, 403, 404]).toContain(await statusOf(path));
    }
    expect(scene.provider.calls).toEqual([]);
    expect(scene.provider.freeCalls).toEqual([]);
  });

  it.each([
    ...paths,
    ...[
      'v1//chat/completions',
      'v1/chat/completions/',
      'V1/Chat/Completions',
      'v1/./chat/completions',
    ],
    ...[
      'v1/chat%2fcompletions',
      'v1/%2e/chat/completions',
      'v1/chat/completions%20',
      'v1/Responses',
    ],
    ...[
      'openai/deployments/m/chat/completions',
      'engines/m/chat/completions',
      'v2/chat/completions',
    ],
    ...['openai/v1/responses', 'anthropic/v1/messages', 'v1/messages;x=y', 'v1/message%73'],
    ...[
      'v1/%2563hat/completions',
      'v1/chat/completions.',
      'v1/chat/completions%3fa',
      'v1/x/%2e%2E/messages',
    ],
    ...['v1beta/Models/m:generateContent', 'gemini/v1beta/models/m:generateContent'],
    ...['v1beta/models/m%3AstreamGenerateContent', 'v1beta/tunedModels/m:GenerateContent'],
  ])('with the path %s are not passed on without being counted', async (path) => {
    scene.budget(1_000_000, { currency: 'Tokens' });
    scene.template({ models: { passThrough: true } });
    const text = head(path, `Content-Length: ${body.length}\r\n`) + body;
    const { answers } = await sendRaw(port(), text);
    expect([400, 404]).toContain(answers[0]?.status);
    expect(scene.provider.calls).toEqual([]);
    expect(scene.provider.freeCalls).toEqual([]);
  });

  it.each([
    ['chat', 'v1/%zz'],
    ['chat', 'v1//chat/completions'],
    ['chat', 'v1/chat/completions/'],
    ['chat', 'v1/./chat/completions'],
    ['chat', '..'],
    ['chat', ''],
    ['responses', 'v1/responses//x'],
    ['messages', 'v1/messages/%zz'],
    ['messages', 'v1/messages/%2fbatches'],
    ['gemini', 'v1beta/models/%zz:generateContent'],
    ['gemini', 'v1beta/models/a//b:generateContent'],
  ] as const)('of %s are refused in the shape of their API with the path %j', async (api, path) => {
    const text = head(path, `Content-Length: ${body.length}\r\n`) + body;
    const { answers } = await sendRaw(port(), text);
    const [{ status, headers, body: chunks } = { status: 0, headers: {}, body: '' }] = answers;
    expect(status).toBe(404);
    const answered = chunks.slice(chunks.indexOf('{'), chunks.lastIndexOf('}') + 1);
    expect(
      refusalIn(api, {
        status,
        headers,
        text: answered,
        bytes: Buffer.from(answered),
        isWhole: true,
      }),
    ).toMatch(/^The relay for models serves no /);
  });

  it.each(paths)('with the path %s never leave the path of the base URL', async (path) => {
    scene.quotas.delete('default', 'default');
    scene.template({ models: { passThrough: true } });
    await statusOf(path);
    const { calls, freeCalls } = scene.provider;
    for (const { target } of [...calls, ...freeCalls]) {
      expect(target).toMatch(/^\/v1\/./);
      expect(target).not.toMatch(/\.\.[/\\]|admin$/);
    }
  });
});

/** A generator of the same numbers for the same seed (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const seeds = (process.env['SEEDS'] ?? '1 2 3').split(' ').map(Number);
describe.each(seeds)('requests of seed %i', (seed) => {
  const random = randomOf(seed);
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const words = [
    ...['', 'm', 'x', '\u0000', '\u{1F600}', '__proto__', 'model', 'stream', 'n', 'max_tokens'],
    ...['messages', 'role', 'content', 'tools', 'type', 'generationConfig', 'maxOutputTokens'],
    ...['stream_options', 'include_usage', 'input', 'thinking', 'budget_tokens', 'candidateCount'],
  ];
  const value = (depth = 0): unknown => {
    const kind = random();
    if (depth > 4 || kind < 0.3)
      return pick([
        null,
        true,
        false,
        0,
        -1,
        0.5,
        16,
        1e308,
        2 ** 53,
        '',
        'text',
        'ſtream',
        '\ud800',
      ]);
    if (kind < 0.5) return Array.from({ length: Math.floor(random() * 4) }, () => value(depth + 1));
    if (kind < 0.6) return pick(words);
    return Object.fromEntries(
      Array.from({ length: Math.floor(random() * 5) }, () => [pick(words), value(depth + 1)]),
    );
  };
  const broken = (text: string): string | Buffer => {
    const at = Math.floor(random() * text.length);
    if (random() < 0.7) return text;
    if (random() < 0.5) return text.slice(0, at);
    const bytes = Buffer.from(text);
    bytes[at % Math.max(1, bytes.length)] = Math.floor(random() * 256);
    return bytes;
  };
  const requestOf = (api: ApiName): ModelRequest => {
    const example = {
      ...apis[api].body,
      ...maxOf(api, 20),
      ...(random() < 0.5 ? apis[api].streamed : {}),
    };
    const fields = random() < 0.6 ? {} : (value() as object);
    const body =
      random() < 0.8 ? JSON.stringify({ ...example, ...fields }) : JSON.stringify(value());
    return {
      isStream: random() < 0.5,
      method: random() < 0.95 ? 'POST' : pick(['GET', 'PUT', 'OPTIONS', 'HEAD', 'DELETE']),
      body: broken(body),
      headers:
        random() < 0.8
          ? {}
          : {
              [pick([
                'x-api-key',
                'authorization',
                'content-type',
                'x-stainless-a',
                'te',
                'accept-encoding',
                'content-encoding',
              ])]: pick([
                '',
                'x',
                'gzip',
                'Bearer ',
                'application/json;charset=utf-8',
                'a, b',
                '\xff',
              ]),
            },
      ...(random() < 0.9
        ? {}
        : {
            path: pick([
              'models',
              'v1beta/models',
              'v1/v1/messages',
              'v1beta/models/a:b:generateContent',
              'embeddings',
              'v1/messages/count_tokens',
              'v1beta/models/%6d:generateContent?x=1&key=',
            ]),
          }),
    };
  };

  it('never fail in the relay, show no key, and leave nothing behind', async () => {
    scene.budget(1_000);
    scene.provider.behave = () => {
      const tokens = { inputTokens: 10, outputTokens: Math.floor(random() * 20) };
      return pick([
        tokens,
        tokens,
        tokens,
        { ...tokens, usage: null },
        { ...tokens, breaksAfter: 1 },
        { ...tokens, fault: 'garbage' as const },
        {
          inputTokens: 0,
          outputTokens: 0,
          fault: pick(['reset', 'html', 'redirect', 'error-in-200'] as const),
        },
        {
          inputTokens: 0,
          outputTokens: 0,
          fault: { status: pick([400, 401, 429, 500]), headers: { 'x-request-id': modelKey } },
        },
      ]);
    };
    const results: AgentAnswer[] = [];
    const worker = async (): Promise<void> => {
      for (let index = 0; index < 60; index++) {
        const api = pick(apiNames);
        const leaving = new AbortController();
        if (random() < 0.1) setTimeout(() => leaving.abort(), random() * 10);
        try {
          results.push(await askModel(alice, api, { ...requestOf(api), signal: leaving.signal }));
        } catch (error) {
          if (!leaving.signal.aborted) throw error;
        }
      }
    };
    await Promise.all(Array.from({ length: 6 }, worker));
    expect(results.length).toBeGreaterThan(250);
    const served = results.filter(({ status }) => status === 200);
    expect(served.length).toBeGreaterThan(50);
    for (const got of results) {
      expect(JSON.stringify([got.headers, got.text])).not.toContain(modelKey);
      // 500 is the status of a provider here, with a text of its own.
      if (got.status === 500) expect(got.text).toContain('status 500');
      else expect([200, 400, 401, 403, 404, 405, 413, 415, 429, 503]).toContain(got.status);
    }
    await eventually('the end of all calls', () => scene.provider.underWay === 0, 5_000);
    scene.provider.behave = () => ({});
    await expectServing();
    expect(await scene.spentInAll()).toBeGreaterThanOrEqual(scene.provider.chargedNanos);
    expect(scene.excesses).toEqual([]);
  });
});
