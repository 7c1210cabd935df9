import { z } from 'zod';
import { hashKey } from '../../../src/gateway/auth/key.ts';
import { apiKeySchema, issuedApiKeySchema } from '../../../src/gateway/keys/keys.ts';
import { apiKeys } from '../../../src/resources/api-key.ts';
import { eventually } from '../../support/eventually.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

describe('API keys over REST', () => {
  let gateway: TestGateway;
  let admin: string;
  beforeAll(async () => {
    gateway = await TestGateway.start();
    admin = await gateway.issueKey('root', 'admin');
    await eventually('the admin key works', async () => (await me(admin)).status === 200);
  });
  afterEach(() => {
    gateway.client.fault = () => undefined;
  });
  afterAll(() => gateway.stop());

  const me = (key: string, on = gateway) => on.get('/api/v1/users/me', { key });
  const create = async (body: object, key = gateway.alice) => {
    const answer = await gateway.post('/api/keys', body, { key });
    expect([answer.status, answer.text]).toEqual([201, expect.any(String)]);
    return issuedApiKeySchema.parse(answer.json);
  };
  const list = async (key = gateway.alice) =>
    z.array(apiKeySchema).parse((await gateway.get('/api/keys', { key })).json);

  it('are shown once, work at once, and are stored as a hash only', async () => {
    const issued = await create({ name: '  laptop ', expires_at: '2999-01-01T01:00:00+01:00' });
    expect(issued).toMatchObject({
      name: 'laptop',
      user_id: 'alice',
      role: 'user',
      last_used_at: null,
      expires_at: '2999-01-01T00:00:00.000000Z',
    });
    expect(await me(issued.key)).toMatchObject({
      status: 200,
      json: { id: 'alice', role: 'user' },
    });
    expect((await gateway.get('/api/keys/current', { key: issued.key })).json).toEqual({
      id: issued.id,
      name: 'laptop',
      user_id: 'alice',
      auth_type: 'bearer',
      scopes: ['read', 'start', 'manage', 'secrets', 'admin'],
    });
    const stored = await gateway.client.get(apiKeys, namespace, issued.id);
    expect(stored.spec.sha256).toBe(hashKey(issued.key));
    expect(JSON.stringify(stored)).not.toContain(issued.key);
    expect(JSON.stringify(gateway.log)).not.toContain(issued.key);
  });

  it('are listed without their values, oldest first, to their owner alone', async () => {
    const { key: _value, ...issued } = await create({ name: 'listed' });
    const listed = await list();
    expect(listed).toContainEqual(issued);
    expect(listed.map(({ created_at }) => created_at)).toEqual(
      listed.map(({ created_at }) => created_at).sort(),
    );
    expect((await list(gateway.bob)).map(({ name }) => name)).toEqual(["bob's key"]);
  });

  it('work no more once they are revoked, and are not listed', async () => {
    const issued = await create({ name: 'short-lived' });
    expect(await gateway.send('DELETE', `/api/keys/${issued.id}`)).toMatchObject({
      status: 200,
      json: { success: true },
    });
    expect(await me(issued.key)).toMatchObject({ status: 401 });
    expect((await list()).map(({ id }) => id)).not.toContain(issued.id);
    expect(await gateway.send('DELETE', `/api/keys/${issued.id}`)).toMatchObject({ status: 404 });
  });

  it('may revoke themselves', async () => {
    const issued = await create({ name: 'suicidal' });
    expect(
      await gateway.send('DELETE', `/api/keys/${issued.id}`, { key: issued.key }),
    ).toMatchObject({ status: 200 });
    expect(await me(issued.key)).toMatchObject({ status: 401 });
  });

  it('work no more on another replica after their revocation, and can be revoked there as soon as they exist', async () => {
    const replica = await gateway.replica();
    try {
      const issued = await create({ name: 'everywhere' });
      await eventually(
        'it works on the other replica',
        async () => (await me(issued.key, replica)).status === 200,
      );
      await gateway.send('DELETE', `/api/keys/${issued.id}`);
      await eventually(
        'it works no more there',
        async () => (await me(issued.key, replica)).status === 401,
      );
      const other = await create({ name: 'revoked elsewhere' });
      expect(await replica.send('DELETE', `/api/keys/${other.id}`)).toMatchObject({ status: 200 });
      await eventually('it works no more here', async () => (await me(other.key)).status === 401);
    } finally {
      await replica.stop();
    }
  });

  it('can be made for another owner, and with the role admin, by an admin', async () => {
    const issued = await create({ name: 'for carol', owner: 'carol' }, admin);
    expect(await me(issued.key)).toMatchObject({
      status: 200,
      json: { id: 'carol', role: 'user' },
    });
    const second = await create({ name: 'second', role: 'admin' }, admin);
    expect(await me(second.key)).toMatchObject({
      status: 200,
      json: { id: 'root', role: 'admin' },
    });
    expect(gateway.log.findLast(({ message }) => message === 'Write')?.fields).toMatchObject({
      action: 'createKey',
      owner: 'root',
      target: `key/${second.id} of root`,
      outcome: 'ok',
    });
  });

  it('can name their own owner without being an admin', async () => {
    expect(
      await create({ name: 'mine', owner: 'alice', role: 'user', expires_at: null }),
    ).toMatchObject({ user_id: 'alice' });
  });

  it.each<[string, object, number, string]>([
    ['for another owner', { name: 'x', owner: 'bob' }, 403, 'forbidden'],
    ['of a higher role', { name: 'x', role: 'admin' }, 403, 'forbidden'],
    ['without a name', {}, 422, 'invalid-request'],
    ['with an empty name', { name: '   ' }, 422, 'invalid-request'],
    ['with a long name', { name: 'x'.repeat(201) }, 422, 'invalid-request'],
    ['that has expired', { name: 'x', expires_at: '2001-01-01' }, 422, 'invalid-request'],
    ['that expires at no time', { name: 'x', expires_at: 'soon' }, 422, 'invalid-request'],
    ['for a name that no owner has', { name: 'x', owner: '../bob' }, 422, 'invalid-request'],
  ])('are not made %s', async (_case, body, status, code) => {
    const before = await list();
    expect(await gateway.post('/api/keys', body)).toMatchObject({ status, json: { code } });
    expect(await list()).toEqual(before);
  });

  it('are not made without end', async () => {
    const dave = await create({ name: 'first', owner: 'dave' }, admin);
    for (let index = 1; index < 100; index++) await gateway.addKey(`key-dave-${index}`, 'dave');
    expect(await gateway.post('/api/keys', { name: 'x' }, { key: dave.key })).toMatchObject({
      status: 409,
      json: { code: 'too-many-keys' },
    });
  });

  it('have no part that models could use', async () => {
    expect(await gateway.get('/api/keys/llm/byor')).toMatchObject({
      status: 200,
      json: { key: null },
    });
  });
});
