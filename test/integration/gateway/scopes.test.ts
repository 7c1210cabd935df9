import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { issueKey } from '../../../src/gateway/auth/key.ts';
import { scopeOf } from '../../../src/gateway/http/route.ts';
import { apiKeyScopes, type ApiKeyScope } from '../../../src/resources/api-key.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

const agent = await StubAgent.start();
const gateway = await TestGateway.start();
const routes = gateway.gateway.routes.filter(({ access }) => access !== 'open');
afterAll(async () => {
  await gateway.stop();
  await agent.stop();
});

const aKey = async (
  scopes: readonly ApiKeyScope[],
  {
    owner = 'alice',
    ...more
  }: {
    readonly owner?: string;
    readonly role?: 'user' | 'admin';
    readonly notBefore?: string;
  } = {},
) => {
  const { key, resource } = await issueKey({
    client: gateway.client,
    namespace,
    owner,
    scopes: [...scopes],
    ...more,
  });
  await gateway.seen(gateway.caches.apiKeys, resource);
  return key;
};

/** A request for a route, about objects that do not exist. */
async function ask(route: (typeof routes)[number], key: string) {
  const path = route.path.replaceAll(/\{\w+\}/g, '0'.repeat(32));
  const abort = new AbortController();
  const answer = await fetch(new URL(path, gateway.url), {
    method: route.method.toUpperCase(),
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(route.method === 'get' ? {} : { body: '{"unknown": 1}' }),
    signal: abort.signal,
  });
  const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream') === true;
  const text = isStream ? '' : await answer.text();
  abort.abort();
  return { status: answer.status, text };
}

it('the account of a key has the scopes that the key opens', async () => {
  const { json } = await gateway.get('/api/v1/users/me', { key: await aKey(['start', 'read']) });
  expect(json).toMatchObject({ id: 'alice', scopes: ['start', 'read'] });
});

describe('the scope of an operation', () => {
  it.each(routes.map((route) => [route.operationId, route] as const))(
    'opens it alone, and no other scope does: %s',
    async (_name, route) => {
      const needed = scopeOf(route);
      const others = apiKeyScopes.filter((scope) => scope !== needed);
      const without = await ask(
        route,
        await aKey(others, { owner: route.operationId, role: 'admin' }),
      );
      if (needed === undefined) expect(without.text).not.toContain('insufficient-scope');
      else {
        expect(without.status).toBe(403);
        expect(JSON.parse(without.text)).toMatchObject({
          code: 'insufficient-scope',
          detail: `The key does not have the scope ${needed}, which this operation needs.`,
        });
        const alone = await ask(
          route,
          await aKey([needed], { owner: route.operationId, role: 'admin' }),
        );
        expect(alone.text).not.toContain('insufficient-scope');
      }
    },
  );

  it('is in the document of the interface', async () => {
    const { paths } = z
      .object({
        paths: z.record(
          z.string(),
          z.record(
            z.string(),
            z.object({
              operationId: z.string(),
              security: z.array(z.object({ bearer: z.array(z.string()).optional() })),
            }),
          ),
        ),
      })
      .parse((await gateway.get('/openapi.json', { key: null })).json);
    const documented = Object.values(paths)
      .flatMap((methods) => Object.values(methods))
      .filter(({ security }) => security.length > 0)
      .map(({ operationId, security }) => [operationId, security[0]?.bearer?.[0]]);
    expect(Object.fromEntries(documented)).toEqual(
      Object.fromEntries(routes.map((route) => [route.operationId, scopeOf(route)])),
    );
  });

  it('is in docs/people.md, which names all but those that read', () => {
    const text = readFileSync('docs/people.md', 'utf8').replaceAll(/ +/g, ' ');
    expect(text).toContain('| `read` | every other operation with `GET` |');
    const isRead = (route: (typeof routes)[number]) => scopeOf(route) === 'read';
    expect(routes.filter(isRead).filter(({ method }) => method !== 'get')).toEqual([]);
    for (const scope of [...apiKeyScopes, undefined]) {
      if (scope === 'read') continue;
      const row = `| ${scope === undefined ? 'every key' : `\`${scope}\``} |`;
      const line = text.split('\n').find((one) => one.startsWith(row)) ?? '';
      const named = [...line.matchAll(/`(\w+)`/g)]
        .map(([, name]) => name)
        .filter((one) => one !== scope);
      const opened = routes.filter((route) => scopeOf(route) === scope);
      expect([scope, named.toSorted()]).toEqual([
        scope,
        opened.map(({ operationId }) => operationId).toSorted(),
      ]);
    }
  });
});

describe('a key without the scope manage', () => {
  it('shows no session key, which would open the agent', async () => {
    const { metadata } = await gateway.addSandbox('sbx-scopes', { status: agent.status });
    const shown = async (key: string) => {
      const { json } = await gateway.get(`/api/v1/sandboxes?id=${metadata.name}`, { key });
      return z.array(z.object({ session_api_key: z.string().nullable() })).parse(json)[0]
        ?.session_api_key;
    };
    expect(await shown(await aKey(['read', 'start', 'secrets', 'admin']))).toBeNull();
    expect(await shown(await aKey(['read', 'manage']))).toEqual(expect.any(String));
  });
});

describe('a key that another key makes', () => {
  const make = (key: string, body: object) =>
    gateway.post('/api/keys', { name: 'made', ...body }, { key });

  it('has the scopes of that key by default, and says so', async () => {
    const answer = await make(await aKey(['read', 'manage']), {});
    expect(answer).toMatchObject({ status: 201, json: { scopes: ['read', 'manage'] } });
    const { key } = answer.json as { readonly key: string };
    expect((await gateway.get('/api/keys/current', { key })).json).toMatchObject({
      scopes: ['read', 'manage'],
    });
  });

  it('can have fewer', async () => {
    expect(await make(gateway.alice, { scopes: ['read', 'read'] })).toMatchObject({
      status: 201,
      json: { scopes: ['read'], not_before: null },
    });
  });

  it.each(['start', 'secrets', 'admin'])('never has the scope that it lacks: %s', async (scope) => {
    expect(await make(await aKey(['read', 'manage']), { scopes: ['read', scope] })).toMatchObject({
      status: 403,
      json: { code: 'insufficient-scope', detail: expect.stringContaining(scope) as string },
    });
  });

  it('does not become an admin by a key of an admin without that scope', async () => {
    const key = await aKey(['read', 'manage'], { role: 'admin' });
    expect(await make(key, { role: 'admin' })).toMatchObject({
      status: 403,
      json: { code: 'forbidden' },
    });
    expect((await gateway.get('/api/v1/users/me', { key })).json).toMatchObject({ role: 'user' });
    expect(await gateway.get('/api/keys?owner=*', { key })).toMatchObject({ status: 403 });
  });

  it.each([
    [{ scopes: [] }, 'body.scopes'],
    [{ scopes: ['write'] }, 'body.scopes[0]'],
    [{ not_before: '2999-01-01T00:00:00Z', expires_at: '2998-01-01T00:00:00Z' }, 'body.not_before'],
  ])('is refused with the name of the field: %j', async (body, path) => {
    const answer = await make(gateway.alice, body);
    expect(answer.status).toBe(422);
    expect(answer.text).toContain(path);
  });

  it('opens nothing before its time', async () => {
    const early = await aKey(['read'], { notBefore: '2999-01-01T00:00:00Z' });
    expect(await gateway.get('/api/keys/current', { key: early })).toMatchObject({ status: 401 });
    const due = await aKey(['read'], { notBefore: '2000-01-01T00:00:00Z' });
    expect(await gateway.get('/api/keys/current', { key: due })).toMatchObject({ status: 200 });
  });
});
