import { generateKey, hashKey } from '../../../src/gateway/auth/key.ts';
import { apiKeys, type ApiKeySpec } from '../../../src/resources/api-key.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

describe('authentication', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start();
  });
  afterAll(() => gateway.stop());

  const store = async (spec: Partial<ApiKeySpec>): Promise<string> => {
    const key = generateKey();
    const created = await gateway.client.create(apiKeys, {
      apiVersion,
      kind: 'ApiKey',
      metadata: { namespace, name: `key-${hashKey(key).slice(0, 8)}` },
      spec: { owner: 'carol', role: 'user', sha256: hashKey(key), ...spec },
    });
    await gateway.seen(gateway.caches.apiKeys, created);
    return key;
  };
  const me = (headers: Readonly<Record<string, string>>) =>
    gateway.get('/api/v1/users/me', { key: null, headers });

  describe('accepts', () => {
    it.each<[string, () => Readonly<Record<string, string>>]>([
      ['a key as Bearer', () => ({ authorization: `Bearer ${gateway.alice}` })],
      ['whatever the case of the scheme', () => ({ authorization: `bearer ${gateway.alice}` })],
      ['a key as X-Session-API-Key', () => ({ 'x-session-api-key': gateway.alice })],
      [
        'a valid Bearer beside a session key that is none of ours',
        () => ({ authorization: `Bearer ${gateway.alice}`, 'x-session-api-key': 'of-a-sandbox' }),
      ],
      [
        'a valid Bearer beside the key of someone else',
        () => ({ authorization: `Bearer ${gateway.alice}`, 'x-session-api-key': gateway.bob }),
      ],
      [
        'a valid X-Session-API-Key beside another kind of authorization',
        () => ({ authorization: 'Basic abc', 'x-session-api-key': gateway.alice }),
      ],
    ])('%s', async (_case, headers) => {
      expect(await me(headers())).toMatchObject({ status: 200, json: { id: 'alice' } });
    });

    it('a key that expires later', async () => {
      const key = await store({ expirationTime: '2999-01-01T00:00:00Z' });
      expect(await me({ authorization: `Bearer ${key}` })).toMatchObject({
        status: 200,
        json: { id: 'carol' },
      });
    });

    it('a key as soon as its cache has seen it, and not any more once it is disabled or deleted', async () => {
      const key = await store({});
      const name = `key-${hashKey(key).slice(0, 8)}`;
      const authorization = `Bearer ${key}`;
      expect(await me({ authorization })).toMatchObject({ status: 200 });
      const disabled = await gateway.client.mergePatch(apiKeys, namespace, name, {
        spec: { disabled: true },
      });
      await gateway.seen(gateway.caches.apiKeys, disabled);
      expect(await me({ authorization })).toMatchObject({ status: 401 });
    });
  });

  describe('refuses with one and the same answer', () => {
    it.each<
      [string, () => Promise<Readonly<Record<string, string>>> | Readonly<Record<string, string>>]
    >([
      ['no key', () => ({})],
      ['an empty Bearer', () => ({ authorization: 'Bearer ' })],
      ['another scheme', () => ({ authorization: `Basic ${gateway.alice}` })],
      [
        'a key with a wrong checksum',
        () => ({
          authorization: `Bearer ${gateway.alice.slice(0, -1)}${gateway.alice.endsWith('0') ? '1' : '0'}`,
        }),
      ],
      [
        'a well-formed key that does not exist',
        () => ({ authorization: `Bearer ${generateKey()}` }),
      ],
      [
        'an expired key',
        async () => ({
          authorization: `Bearer ${await store({ expirationTime: '2001-01-01T00:00:00Z' })}`,
        }),
      ],
      [
        'a disabled key',
        async () => ({ authorization: `Bearer ${await store({ disabled: true })}` }),
      ],
      ['a long text', () => ({ authorization: `Bearer ${'x'.repeat(5000)}` })],
      [
        'two keys in one header',
        () => ({ authorization: `Bearer ${gateway.alice} ${gateway.alice}` }),
      ],
    ])('%s', async (_case, headers) => {
      const answer = await me(await headers());
      expect(answer.status).toBe(401);
      expect(answer.headers['www-authenticate']).toBe('Bearer');
      expect({ ...(answer.json as object), request_id: '' }).toEqual({
        type: 'tag:conversation-operator.dev,2026:unauthorized',
        title: 'A valid API key is needed',
        status: 401,
        detail: 'The API key is missing or not valid.',
        code: 'unauthorized',
        request_id: '',
      });
    });
  });

  it('is asked for by every endpoint but the open ones', async () => {
    const unlocked: string[] = [];
    for (const { method, path } of gateway.gateway.routes) {
      const { status } = await gateway.send(method.toUpperCase(), path.replace('{id}', 'sbx-1'), {
        key: null,
      });
      if (status !== 401) unlocked.push(path);
    }
    expect(unlocked.sort()).toEqual([
      '/',
      '/account',
      '/alive',
      '/api/v1/shared/{token}/conversation',
      '/api/v1/shared/{token}/events/count',
      '/api/v1/shared/{token}/events/search',
      '/api/v1/shared/{token}/file',
      '/api/v1/shared/{token}/files',
      '/api/v1/shared/{token}/git/changes',
      '/api/v1/shared/{token}/git/diff',
      '/api/v1/shared/{token}/timeline',
      '/c/{id}',
      '/conversations/{id}',
      '/device',
      '/device',
      '/docs',
      '/health',
      '/login',
      '/login',
      '/login/{issuer}',
      '/logout',
      '/oauth/callback/{issuer}',
      '/oauth/device/authorize',
      '/oauth/device/token',
      '/openapi.json',
      '/operate',
      '/ready',
      '/server_info',
      '/shared/{token}',
      '/usage',
    ]);
  });

  it('shows which key is used, never its value', async () => {
    const answer = await gateway.get('/api/keys/current');
    expect(answer.json).toMatchObject({
      name: "alice's key",
      user_id: 'alice',
      auth_type: 'bearer',
    });
    expect(answer.json).not.toHaveProperty('org_id');
    expect(answer.text).not.toContain(gateway.alice);
  });

  it('leaves no key in the log', () => {
    const text = JSON.stringify(gateway.log);
    expect(text).not.toContain(gateway.alice);
    expect(text).not.toContain(gateway.bob);
  });
});

describe('before the caches are filled', () => {
  it('a key is not called wrong: 503 with Retry-After, and /ready says no', async () => {
    const gateway = await TestGateway.start({}, { synced: false });
    try {
      const early = await gateway.get('/api/v1/users/me');
      expect(early).toMatchObject({ status: 503, json: { code: 'unavailable' } });
      expect(early.headers['retry-after']).toBe('1');
      expect(await gateway.get('/ready', { key: null })).toMatchObject({ status: 503 });
      expect(await gateway.get('/alive', { key: null })).toMatchObject({ status: 200 });
      await gateway.sync();
      expect(await gateway.get('/ready', { key: null })).toMatchObject({ status: 200 });
      expect(await gateway.get('/api/v1/users/me')).toMatchObject({ status: 200 });
    } finally {
      await gateway.stop();
    }
  });
});
