import { randomBytes } from 'node:crypto';
import {
  apiNames,
  apis,
  askModel,
  credential,
  refusalIn,
  send,
  type Access,
  type ApiName,
} from '../../support/models/agent-call.ts';
import { modelKey, RelayScene } from '../../support/models/relay-scene.ts';

let scene: RelayScene;
let alice: Access;
beforeEach(async () => {
  scene = await RelayScene.start();
  alice = scene.conversation();
});
afterEach(() => scene[Symbol.asyncDispose]());

/** JSON as no serializer writes it: what changes it is noticed. */
const oddly = (body: object): string =>
  JSON.stringify(body, null, '\t')
    .replace('{', '{ \r\n "seed" : 12345678901234567890.50e-0 , "user":"\\u00e4\u{1F600}\\/", ')
    .concat('\n ');
const oddBody = (api: ApiName, isStream: boolean): string =>
  api === 'gemini'
    ? JSON.stringify(apis.gemini.body, null, '\t')
    : oddly({ ...apis[api].body, ...(isStream ? apis[api].streamed : {}) });

describe.each(apiNames)('a call of %s', (api) => {
  it.each([false, true])(
    'has the bytes of the agent and of the provider, streamed: %s',
    async (isStream) => {
      const answer = Buffer.concat([
        Buffer.from('data: {"a" :  "ä"}\r\n\r\n: note\n\ndata:{}\n\n'),
        randomBytes(300_000),
      ]);
      const type = isStream ? 'text/event-stream; charset=utf-8' : 'application/json';
      scene.provider.behave = () => ({
        respond: (response) =>
          void response.writeHead(200, { 'content-type': type, 'x-request-id': 'r1' }).end(answer),
      });
      const body = oddBody(api, isStream);
      const got = await askModel(alice, api, { isStream, body });
      expect(got).toMatchObject({ status: 200, isWhole: true });
      expect(got.headers).toMatchObject({ 'content-type': type, 'x-request-id': 'r1' });
      expect(got.bytes.equals(answer)).toBe(true);
      const sent = scene.provider.calls[0]?.bytes.toString();
      const added = api === 'chat' && isStream ? '"stream_options":{"include_usage":true},' : '';
      expect(sent).toBe(body.replace('{', `{${added}`));
    },
  );

  it('has its maximum of output lowered under a budget, and nothing else', async () => {
    scene.budget(0.02);
    const body = oddBody(api, false);
    expect(await askModel(alice, api, { body })).toMatchObject({ status: 200 });
    const [call] = scene.provider.calls;
    if (api === 'messages') {
      expect(call?.bytes.toString()).toBe(body);
      return;
    }
    const max = call?.maxTokens ?? Infinity;
    expect(max).toBeGreaterThan(500);
    expect(max * 10_000).toBeLessThanOrEqual(20_000_000);
    const name = { chat: 'max_tokens', responses: 'max_output_tokens', gemini: 'generationConfig' };
    const value = api === 'gemini' ? `{"maxOutputTokens":${max}}` : max;
    expect(call?.bytes.toString()).toBe(body.replace('{', `{"${name[api]}":${value},`));
  });

  it('reaches the provider with what its client says of itself, and nothing else', async () => {
    const passed = {
      accept: 'application/json',
      'anthropic-beta': 'a,b',
      'anthropic-version': '2023-06-01',
      'idempotency-key': 'once',
      'user-agent': 'agent/1 (x)',
      'x-stainless-lang': 'js',
      'x-goog-api-client': 'gl/1',
    };
    const withheld = {
      'accept-encoding': 'gzip',
      cookie: 'a=b',
      connection: 'keep-alive, X-Stainless-Hop, user-agents',
      'x-stainless-hop': 'hop',
      'cf-aig-authorization': 'x',
      expect: '100-continue',
      forwarded: 'for=10.0.0.1',
      'keep-alive': 'timeout=5',
      origin: 'http://sandbox',
      'proxy-authorization': 'Basic abc',
      referer: 'http://sandbox',
      te: 'trailers',
      via: '1.1 x',
      'openai-organization': 'other',
      'x-forwarded-for': '10.0.0.1',
      'x-forwarded-host': 'evil',
      'x-goog-user-project': 'other',
      'x-http-method-override': 'DELETE',
      'x-original-url': '/v1/other',
      'x-portkey-custom-host': 'http://evil',
      'x-real-ip': '10.0.0.1',
      'x-vertex-ai-llm-shared-request-type': 'priority',
    };
    expect(await askModel(alice, api, { headers: { ...passed, ...withheld } })).toMatchObject({
      status: 200,
    });
    const [call] = scene.provider.calls;
    const { host, connection, ...headers } = call?.headers ?? {};
    expect(host).toBe(new URL(scene.provider.url).host);
    expect(connection).toBe('keep-alive');
    expect(headers).toEqual({
      ...passed,
      ...credential(apis[api].place, modelKey),
      'accept-encoding': 'identity',
      'content-length': String(call?.bytes.length),
      'content-type': 'application/json',
    });
  });

  it('has headers of the answer that agents use, and none of the connection', async () => {
    scene.provider.behave = () => ({
      respond: (response) =>
        void response
          .writeHead(200, {
            'content-type': 'application/json',
            'anthropic-ratelimit-tokens-remaining': '7',
            'x-ratelimit-remaining-tokens': '7',
            'retry-after': '3',
            'set-cookie': 'a=b',
            server: 'cloudflare',
            'x-litellm-key': modelKey,
            'x-litellm-call-id': '5',
            'x-litellm-response-cost': '1.35e-05',
            // Owners would see what all have spent with the key, and where the provider is.
            'x-litellm-key-spend': '12',
            'x-litellm-model-api-base': 'http://models.internal/v1',
            'openai-processing-ms': '4',
            'x-request-id': Buffer.from('zähler').toString('latin1'),
            upgrade: 'h2c',
            'alt-svc': 'h3=":443"',
          })
          .end('{}'),
    });
    const { headers } = await askModel(alice, api);
    expect(headers).toMatchObject({
      'anthropic-ratelimit-tokens-remaining': '7',
      'x-ratelimit-remaining-tokens': '7',
      'retry-after': '3',
      'openai-processing-ms': '4',
      'x-litellm-call-id': '5',
      'x-litellm-response-cost': '1.35e-05',
    });
    const withheld = ['set-cookie', 'server', 'x-litellm-key', 'upgrade', 'alt-svc'];
    for (const name of [...withheld, 'x-litellm-key-spend', 'x-litellm-model-api-base'])
      expect(headers).not.toHaveProperty(name);
  });

  it.each(['authorization', 'x-api-key', 'x-goog-api-key', 'api-key'])(
    'has the key in the header %s in which the agent has sent its token',
    async (place) => {
      const { path, body } = apis[api];
      const got = await send(`${alice.baseUrl}/${path}`, {
        headers: { 'content-type': 'application/json', ...credential(place, alice.token) },
        body: JSON.stringify(body),
      });
      expect(got.status).toBe(200);
      const [call] = scene.provider.calls;
      expect(call?.headers).toMatchObject(credential(place, modelKey));
      expect(JSON.stringify(call?.headers)).not.toContain(alice.token);
    },
  );

  it('has the key in a header where the agent has sent its token in the query', async () => {
    const { path, body } = apis[api];
    const url = `${alice.baseUrl}/${path}?key=${alice.token}&alt=json`;
    const headers = { 'content-type': 'application/json' };
    expect(await send(url, { headers, body: JSON.stringify(body) })).toMatchObject({ status: 200 });
    const [call] = scene.provider.calls;
    expect(call?.target.split('?')[1]).toBe('alt=json');
    expect(call?.headers).toMatchObject({ 'x-goog-api-key': modelKey });
  });

  it.each<[string, (token: string) => readonly [Record<string, string>, string?]]>([
    ['no token', () => [{}]],
    [
      'a token and another one',
      (token) => [{ authorization: `Bearer ${token}`, 'x-api-key': 'x' }],
    ],
    ['another one and a token', (token) => [{ authorization: 'Bearer x', 'x-api-key': token }]],
    ['a token and an empty one', (token) => [{ authorization: `Bearer ${token}`, 'api-key': '' }]],
    ['a token, and another one in the query', (token) => [{ 'x-api-key': token }, '?key=x']],
    ['two tokens in the query', (token) => [{}, `?key=${token}&key=x`]],
    ['the key itself', () => [{ authorization: `Bearer ${modelKey}` }]],
    ['a token with more behind it', (token) => [{ authorization: `Bearer ${token}x` }]],
    ['a token under another scheme', (token) => [{ authorization: `Basic ${token}` }]],
  ])('is refused with %s', async (_what, withToken) => {
    const { path, body } = apis[api];
    const [headers, query = ''] = withToken(alice.token);
    const got = await send(`${alice.baseUrl}/${path}${query}`, {
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
    expect(got.status).toBe(401);
    refusalIn(api, got);
    expect(scene.provider.calls).toEqual([]);
  });

  it('tells of other methods and paths in the shape of the API', async () => {
    const { path, place } = apis[api];
    const headers = credential(place, alice.token);
    for (const [method, rest] of [
      ['PUT', path],
      ['DELETE', path],
      ['PROPFIND', path],
      ['POST', api === 'gemini' ? path.replace('generate', 'embed') : `${path}/other`],
    ] as const) {
      const got = await send(`${alice.baseUrl}/${rest}`, { method, headers });
      expect([method, rest, got.status]).toEqual([method, rest, 404]);
      refusalIn(api, got);
    }
    expect(scene.provider.calls).toEqual([]);
    expect(scene.provider.freeCalls).toEqual([]);
  });
});

it.each(apiNames)(
  'a call of %s has no parameter in its address that its client does not need',
  async (api) => {
    const { path } = apis[api];
    const odd = 'model=dear&$userProject=other&fields=a&x=.openai.azure.com';
    const query = `alt=sse&beta=true&api-version=2026-01-01&${odd}`;
    expect(await askModel(alice, api, { path: `${path}?${query}` })).toMatchObject({ status: 200 });
    const [call] = scene.provider.calls;
    expect(call?.target.split('?')[1]).toBe('alt=sse&beta=true&api-version=2026-01-01');
  },
);

it('the price is that of the provider, whatever provider the address of a call names', async () => {
  scene.template({
    agent: {
      port: 8000,
      workingDir: '/',
      model: 'openai/gpt-4o',
      allowedModels: ['*'],
      baseUrl: `${scene.provider.url.replace('127.0.0.1', 'localhost')}/v1`,
      credential: 'platform',
    },
  });
  scene.budget(1);
  const fields = { model: 'phi-4' };
  const path = 'chat/completions?alt=a.openai.azure.com';
  // A model of Azure has no price at a server whose provider nobody knows.
  expect(await askModel(alice, 'chat', { fields })).toMatchObject({ status: 403 });
  expect(await askModel(alice, 'chat', { fields, path })).toMatchObject({ status: 403 });
});

it.each<[ApiName, object]>([
  ['chat', { web_search_options: {} }],
  ['responses', { tools: [{ type: 'web_search' }] }],
  ['messages', { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }],
  ['gemini', { tools: [{ googleSearch: {} }] }],
])('a call of %s with %j is refused under a budget in tokens', async (api, fields) => {
  scene.budget(1_000_000, { currency: 'Tokens' });
  scene.provider.behave = () => ({ inputTokens: 5_000_000 });
  const got = await askModel(alice, api, { fields });
  expect(scene.excesses).toEqual([]);
  expect(got.status).toBe(403);
  expect(refusalIn(api, got)).toMatch(/^A budget in tokens holds, and nothing bounds the tokens/);
});

it.each([
  { max_completion_tokens: 3 },
  { max_tokens: null, max_completion_tokens: 3 },
  { max_completion_tokens: null },
])('a server that knows max_tokens alone writes no more than was reserved: %j', async (fields) => {
  scene.provider.behave = ({ body }) => ({ outputTokens: Number(body['max_tokens'] ?? 60_000) });
  scene.budget(0.1);
  expect(await askModel(alice, 'chat', { fields })).toMatchObject({ status: 200 });
  expect(scene.excesses).toEqual([]);
  expect(await scene.spentInAll()).toBe(scene.provider.chargedNanos);
});

it('a model of OpenAI behind another server has the maximum in the name that it knows', async () => {
  scene.template({
    agent: {
      port: 8000,
      workingDir: '/',
      model: 'openai/gpt-5',
      baseUrl: `${scene.provider.url}/v1`,
      credential: 'platform',
    },
  });
  scene.budget(1);
  const fields = { model: 'gpt-5', max_completion_tokens: 30 };
  expect(await askModel(alice, 'chat', { fields })).toMatchObject({ status: 200 });
  const [call] = scene.provider.calls;
  expect(call?.body).toMatchObject(fields);
  expect(call?.body).not.toHaveProperty('max_tokens');
});

it('a call that names several models is refused', async () => {
  const got = await askModel(alice, 'chat', { fields: { model: 'm,m' } });
  expect(got.status).toBe(400);
  expect(refusalIn('chat', got)).toMatch(/"model" must name one model/);
});

describe('a request that is not counted', () => {
  const headers = () => credential('authorization', alice.token);

  it.each(['models', 'models/m', 'v1/models', 'v1beta/models', 'v1beta/models/m'])(
    'reads the list of models at %s',
    async (path) => {
      scene.budget(0.000_001);
      const got = await send(`${alice.baseUrl}/${path}?limit=2`, {
        method: 'GET',
        headers: headers(),
      });
      expect(got).toMatchObject({ status: 200, isWhole: true });
      const [call] = scene.provider.freeCalls;
      expect(call?.target).toBe(`/v1/${path.replace(/^v1\//, '')}?limit=2`);
      expect(call?.headers).toMatchObject({ authorization: `Bearer ${modelKey}` });
    },
  );

  it.each(['v1/messages/count_tokens', 'v1beta/models/m:countTokens'])(
    'counts tokens at %s',
    async (path) => {
      scene.budget(0.000_001);
      const body = '{"model" : "m"}';
      const type = { 'content-type': 'application/json' };
      const got = await send(`${alice.baseUrl}/${path}`, {
        headers: { ...headers(), ...type },
        body,
      });
      expect(got.status).toBe(200);
      expect(scene.provider.freeCalls[0]?.bytes.toString()).toBe(body);
    },
  );

  describe('of a path that the relay does not know', () => {
    const embed = () =>
      send(`${alice.baseUrl}/embeddings?a=b`, {
        headers: { ...headers(), 'content-type': 'application/json' },
        body: '{"input": 1}',
      });

    it('is refused by default', async () => {
      const got = await embed();
      expect(got.status).toBe(404);
      expect(refusalIn('chat', got)).toMatch(/serves no POST embeddings/);
    });

    it('is passed on where the template says so', async () => {
      scene.template({ models: { passThrough: true } });
      expect(await embed()).toMatchObject({ status: 200 });
      const [call] = scene.provider.freeCalls;
      expect(call).toMatchObject({ method: 'POST', target: '/v1/embeddings?a=b' });
      expect(call?.bytes.toString()).toBe('{"input": 1}');
      expect(call?.headers).toMatchObject({ authorization: `Bearer ${modelKey}` });
    });

    it('is passed on under a budget in tokens, and never under one in money', async () => {
      scene.template({ models: { passThrough: true } });
      scene.budget(1_000, { currency: 'Tokens' });
      expect(await embed()).toMatchObject({ status: 200 });
      scene.budget(1_000);
      const got = await embed();
      expect(got.status).toBe(403);
      expect(refusalIn('chat', got)).toMatch(/^A budget in money holds/);
      const own = scene.conversation(2, { budget: { amount: 1, currency: 'USD' } });
      scene.quotas.delete('default', 'default');
      const second = await send(`${own.baseUrl}/files`, {
        method: 'GET',
        headers: credential('authorization', own.token),
      });
      expect(second.status).toBe(403);
    });

    it('is refused with a method that changes something', async () => {
      scene.template({ models: { passThrough: true } });
      const got = await send(`${alice.baseUrl}/files/f1`, { method: 'DELETE', headers: headers() });
      expect(got.status).toBe(404);
      expect(scene.provider.freeCalls).toEqual([]);
    });
  });
});
