import { z } from 'zod';
import { hashKey, generateKey, issueKey } from '../../../src/gateway/auth/key.ts';
import { apiKeySchema, issuedApiKeySchema } from '../../../src/gateway/keys/keys.ts';
import { apiKeys, type ApiKeySpec } from '../../../src/resources/api-key.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { eventually } from '../../support/eventually.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

const dayMs = 24 * 60 * 60 * 1000;
let gateway: TestGateway;
beforeEach(async () => {
  gateway = await TestGateway.start();
});
afterEach(() => gateway.stop());

const me = async (key: string, on = gateway) => (await on.get('/api/v1/users/me', { key })).status;
const create = async (body: object, key: string, on = gateway) => {
  const answer = await on.post('/api/keys', { name: 'a key', ...body }, { key });
  expect([answer.status, answer.text]).toEqual([201, expect.any(String)]);
  return issuedApiKeySchema.parse(answer.json);
};
const inDays = (days: number) => new Date(Date.now() + days * dayMs).toISOString();
/** Adds a key as the command line does. */
const add = async (
  owner: string,
  wish: { readonly role?: ApiKeySpec['role']; readonly expiresAt?: string } = {},
) => {
  const { key, resource } = await issueKey({ client: gateway.client, namespace, owner, ...wish });
  await gateway.seen(gateway.caches.apiKeys, resource);
  return { key, name: resource.metadata.name };
};
const patch = async (name: string, spec: Partial<ApiKeySpec>) =>
  gateway.seen(
    gateway.caches.apiKeys,
    await gateway.client.mergePatch(apiKeys, namespace, name, { spec }),
  );

describe('a key that was made by another key', () => {
  it('names it, as its owner for the garbage collector too; one of the command line has none', async () => {
    const root = await add('carol');
    const child = await create({}, root.key);
    const { metadata, spec } = await gateway.client.get(apiKeys, namespace, child.id);
    const { uid } = (await gateway.client.get(apiKeys, namespace, root.name)).metadata;
    expect(spec.issuedBy).toEqual({ name: root.name, uid });
    expect(metadata.ownerReferences).toEqual([
      { apiVersion, kind: 'ApiKey', name: root.name, uid },
    ]);
    expect(child.issued_by).toBe(root.name);
    const listed = z
      .array(apiKeySchema)
      .parse((await gateway.get('/api/keys', { key: root.key })).json);
    expect(listed.map(({ issued_by }) => issued_by).sort()).toEqual([null, root.name].sort());
  });

  it.each<[string, (root: { readonly key: string; readonly name: string }) => Promise<unknown>]>([
    ['is revoked', (root) => gateway.send('DELETE', `/api/keys/${root.name}`, { key: root.key })],
    ['is deleted with kubectl', (root) => gateway.client.delete(apiKeys, namespace, root.name)],
    ['is disabled', (root) => patch(root.name, { disabled: true })],
    ['expires', (root) => patch(root.name, { expirationTime: '2001-01-01T00:00:00Z' })],
  ])('ends with its maker, and so do its own: when that %s', async (_case, end) => {
    const root = await add('carol');
    const child = await create({}, root.key);
    const grandchild = await create({}, child.key);
    expect([await me(child.key), await me(grandchild.key)]).toEqual([200, 200]);
    await end(root);
    await eventually('the grandchild is refused', async () => (await me(grandchild.key)) === 401);
    expect([await me(root.key), await me(child.key)]).toEqual([401, 401]);
  });

  it('is not listed any more once its maker is gone, also before it has been collected', async () => {
    const [root, other] = [await add('carol'), await add('carol')];
    const child = await create({}, root.key);
    await create({}, child.key);
    await gateway.send('DELETE', `/api/keys/${root.name}`, { key: other.key });
    const ids = z
      .array(apiKeySchema)
      .parse((await gateway.get('/api/keys', { key: other.key })).json);
    expect(ids.map(({ id }) => id)).toEqual([other.name]);
  });

  it('does not outlive a maker that was made again under the same name', async () => {
    const root = await add('carol');
    const child = await create({}, root.key);
    await gateway.client.delete(apiKeys, namespace, root.name);
    const key = generateKey();
    const again = await gateway.client.create(apiKeys, {
      apiVersion,
      kind: 'ApiKey',
      metadata: { namespace, name: root.name },
      spec: { owner: 'carol', role: 'user', sha256: hashKey(key) },
    });
    await gateway.seen(gateway.caches.apiKeys, again);
    expect([await me(key), await me(child.key)]).toEqual([200, 401]);
  });

  it('never expires later than its maker', async () => {
    const expiresAt = inDays(10);
    const root = await add('carol', { expiresAt });
    expect((await create({}, root.key)).expires_at?.slice(0, 19)).toBe(expiresAt.slice(0, 19));
    const short = await create({ expires_at: inDays(5) }, root.key);
    expect(short.expires_at?.slice(0, 10)).toBe(inDays(5).slice(0, 10));
    expect(
      await gateway.post('/api/keys', { name: 'x', expires_at: inDays(11) }, { key: root.key }),
    ).toMatchObject({
      status: 422,
      json: { code: 'invalid-request', errors: [{ path: 'body.expires_at' }] },
    });
    expect(
      await gateway.post('/api/keys', { name: 'x', expires_at: inDays(6) }, { key: short.key }),
    ).toMatchObject({ status: 422 });
    // A child shortened with kubectl ends with the key that issued it all the same.
    const tomorrow = inDays(1);
    await patch(root.name, { expirationTime: tomorrow });
    expect((await create({}, short.key)).expires_at?.slice(0, 19)).toBe(tomorrow.slice(0, 19));
  });

  it('has no higher role than its maker, whichever process wrote it', async () => {
    const root = await add('carol');
    expect(
      await gateway.post('/api/keys', { name: 'x', role: 'admin' }, { key: root.key }),
    ).toMatchObject({ status: 403 });
    const { uid } = (await gateway.client.get(apiKeys, namespace, root.name)).metadata;
    const key = generateKey();
    const written = await gateway.client.create(apiKeys, {
      apiVersion,
      kind: 'ApiKey',
      metadata: { namespace, name: 'by-kubectl' },
      spec: {
        owner: 'carol',
        role: 'admin',
        sha256: hashKey(key),
        issuedBy: { name: root.name, uid },
      },
    });
    await gateway.seen(gateway.caches.apiKeys, written);
    expect((await gateway.get('/api/v1/users/me', { key })).json).toMatchObject({ role: 'user' });
  });

  it('is the eighth of a chain at most', async () => {
    let { key } = await add('carol');
    for (let length = 2; length <= 8; length++) ({ key } = await create({}, key));
    expect(await gateway.post('/api/keys', { name: 'x' }, { key })).toMatchObject({
      status: 409,
      json: { code: 'key-depth-exceeded' },
    });
  });

  it('is refused by a replica that has not seen its maker', async () => {
    const root = await add('carol');
    const child = await create({}, root.key);
    const stored = await gateway.client.get(apiKeys, namespace, root.name);
    await gateway.client.delete(apiKeys, namespace, root.name);
    const replica = await gateway.replica();
    expect(await me(child.key, replica)).toBe(401);
    gateway.client.put(apiKeys, stored);
    await replica.stop();
  });
});

describe('a maximum lifetime', () => {
  beforeEach(async () => {
    await gateway.stop();
    gateway = await TestGateway.start({ maxKeyLifetimeMs: 30 * dayMs });
  });

  it('is that of keys that name no end, and none may name a later one', async () => {
    const root = await add('root', { role: 'admin' });
    expect((await create({}, root.key)).expires_at?.slice(0, 10)).toBe(inDays(30).slice(0, 10));
    expect((await create({ expires_at: inDays(29) }, root.key)).expires_at?.slice(0, 10)).toBe(
      inDays(29).slice(0, 10),
    );
    expect(
      await gateway.post('/api/keys', { name: 'x', expires_at: inDays(31) }, { key: root.key }),
    ).toMatchObject({
      status: 422,
      json: { errors: [{ path: 'body.expires_at', message: 'must be at most 30 days from now' }] },
    });
  });
});

describe('an admin', () => {
  const list = async (query: string, key: string) => {
    const answer = await gateway.get(`/api/keys${query}`, { key });
    return {
      status: answer.status,
      keys: answer.status === 200 ? z.array(apiKeySchema).parse(answer.json) : [],
      link: answer.headers['link'],
    };
  };

  it('lists the keys of one owner, and of all, page by page', async () => {
    const root = await add('root', { role: 'admin' });
    for (let index = 0; index < 5; index++) await gateway.addKey(`key-dave-${index}`, 'dave');
    expect((await list('?owner=dave', root.key)).keys.map(({ id }) => id)).toEqual(
      [0, 1, 2, 3, 4].map((index) => `key-dave-${index}`),
    );
    expect((await list('?owner=missing', root.key)).keys).toEqual([]);
    const all: string[] = [];
    let path = '?owner=*&limit=3';
    for (let page = 0; page < 10; page++) {
      const { keys, link } = await list(path, root.key);
      expect(keys.length).toBeLessThanOrEqual(3);
      all.push(...keys.map(({ id }) => id));
      const [, next] =
        /^<http:\/\/[^/]+\/api\/keys(\?[^>]+)>; rel="next"$/.exec(
          typeof link === 'string' ? link : '',
        ) ?? [];
      if (next === undefined) break;
      path = next;
    }
    const stored = (await gateway.client.list(apiKeys, { namespace })).items.map(
      ({ metadata }) => metadata.name,
    );
    expect(all.toSorted()).toEqual(stored.toSorted());
    expect((await list('', root.key)).keys.map(({ user_id }) => user_id)).toEqual(['root']);
  });

  it('revokes the key of another owner, and the audit says whose', async () => {
    const root = await add('root', { role: 'admin' });
    const theirs = await add('dave');
    expect(
      await gateway.send('DELETE', `/api/keys/${theirs.name}`, { key: root.key }),
    ).toMatchObject({ status: 200 });
    expect(await me(theirs.key)).toBe(401);
    expect(
      await gateway.send('DELETE', `/api/keys/${theirs.name}`, { key: root.key }),
    ).toMatchObject({ status: 404 });
    expect(
      gateway.log.find(({ fields }) => fields['action'] === 'revokeKey')?.fields,
    ).toMatchObject({
      owner: 'root',
      key: root.name,
      target: `key/${theirs.name} of dave`,
      outcome: 'ok',
    });
  });

  it('is who may: for others the keys of another owner do not exist', async () => {
    const theirs = await add('dave');
    expect(await gateway.send('DELETE', `/api/keys/${theirs.name}`)).toMatchObject({
      status: 404,
      json: { code: 'not-found' },
    });
    for (const owner of ['dave', 'missing', '*'])
      expect(await gateway.get(`/api/keys?owner=${owner}`)).toMatchObject({ status: 403 });
    expect((await list('?owner=alice', gateway.alice)).keys.map(({ user_id }) => user_id)).toEqual([
      'alice',
    ]);
    expect(await gateway.get('/api/keys?owner=../x')).toMatchObject({
      status: 422,
      json: { errors: [{ path: 'query.owner' }] },
    });
    expect(await me(theirs.key)).toBe(200);
  });
});
