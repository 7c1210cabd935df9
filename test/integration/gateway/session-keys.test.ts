import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import { z } from 'zod';
import { WebSocket, type ClientOptions } from 'ws';
import { issueKey } from '../../../src/gateway/auth/key.ts';
import { apiKeys } from '../../../src/resources/api-key.ts';
import {
  sandboxes,
  sessionKeyGenerationAnnotation,
  type Sandbox,
} from '../../../src/resources/sandbox.ts';
import { eventually } from '../../support/eventually.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';
import { unknownOutcomes } from '../../support/unknown-outcomes.ts';

let agent: StubAgent;
let gateway: TestGateway;
let other: TestGateway;
let count = 0;

beforeAll(async () => {
  agent = await StubAgent.start();
  gateway = await TestGateway.start();
  other = await gateway.replica();
});
afterAll(async () => {
  await other.stop();
  await gateway.stop();
  await agent.stop();
});
beforeEach(() => agent.reset());

async function aSandbox() {
  count += 1;
  const sandbox = await gateway.addSandbox(`sbx-${count}`, { status: agent.status });
  await other.seen(other.caches.sandboxes, sandbox);
  return {
    sandbox,
    name: sandbox.metadata.name,
    path: `/sandboxes/${sandbox.metadata.name}/AGENT_SERVER`,
  };
}
const aKey = async (wish: { readonly owner?: string; readonly expiresAt?: string } = {}) => {
  const { key, resource } = await issueKey({
    client: gateway.client,
    namespace,
    owner: 'alice',
    ...wish,
  });
  for (const replica of [gateway, other]) await replica.seen(replica.caches.apiKeys, resource);
  return { key, name: resource.metadata.name };
};
const recordSchema = z.array(z.object({ session_api_key: z.string().nullable() }));
const shownTo = async (key: string, name: string, on = gateway): Promise<string> => {
  const [record] = recordSchema.parse((await on.get(`/api/v1/sandboxes?id=${name}`, { key })).json);
  return record?.session_api_key ?? 'none';
};
const rotate = (name: string, options = {}) =>
  gateway.post(`/api/v1/sandboxes/${name}/rotate-key`, undefined, options);
const keyed = (key: string) => ({ 'x-session-api-key': key });
const send = (path: string, key: string, on = gateway) =>
  on.open('GET', `${path}/api/x`, { key: null, headers: keyed(key) });
const statusOf = async (path: string, key: string, on = gateway): Promise<number> => {
  const response = await send(path, key, on);
  response.resume();
  return response.statusCode ?? 0;
};
const opens = (path: string, key: string) =>
  Promise.all([statusOf(path, key), statusOf(path, key, other)]);
const webSocket = (path: string, options: ClientOptions = {}, on = gateway): WebSocket => {
  const socket = new WebSocket(`ws://127.0.0.1:${on.port}${path}`, options);
  socket.on('error', () => undefined);
  return socket;
};
const closed = async (socket: WebSocket): Promise<number> =>
  ((await once(socket, 'close')) as [number])[0];
const refused = async (socket: WebSocket): Promise<number> => {
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
  return response.statusCode ?? 0;
};
const annotate = async ({ metadata: { name } }: Sandbox, generation: string | null) => {
  const annotations = { [sessionKeyGenerationAnnotation]: generation };
  const updated = await gateway.client.mergePatch(sandboxes, namespace, name, {
    metadata: { annotations },
  });
  for (const replica of [gateway, other]) await replica.seen(replica.caches.sandboxes, updated);
};
const agentKeyOf = ({ metadata }: Sandbox): string => gateway.keys.sessionKey(metadata.uid);

describe('a session key', () => {
  it('is another one for each API key, and the same on every replica', async () => {
    const { sandbox, name } = await aSandbox();
    const second = await aKey();
    const [one, two] = [await shownTo(gateway.alice, name), await shownTo(second.key, name)];
    expect(one).toMatch(/^[A-Za-z0-9_-]{32,128}$/);
    expect(new Set([one, two, agentKeyOf(sandbox)]).size).toBe(3);
    expect(await shownTo(gateway.alice, name, other)).toBe(one);
  });

  it("becomes the agent's own on the way to it, and neither side sees the other's", async () => {
    const { sandbox, name, path } = await aSandbox();
    const key = await shownTo(gateway.alice, name);
    const response = await gateway.open('GET', `${path}/api/x?a=%20b&session_api_key=${key}&c`, {
      key: null,
      headers: keyed(key),
    });
    expect([response.statusCode, await textOf(response)]).toEqual([
      200,
      expect.stringContaining('"url"'),
    ]);
    expect(agent.seen[0]).toMatchObject({
      url: `/api/x?a=%20b&session_api_key=${agentKeyOf(sandbox)}&c`,
      headers: keyed(agentKeyOf(sandbox)),
    });
    expect(JSON.stringify(agent.seen)).not.toContain(key);
  });

  it("that is the agent's own opens nothing, nor does one of another owner's API key or of another sandbox", async () => {
    const [one, two] = [await aSandbox(), await aSandbox()];
    const bobs = await aKey({ owner: 'bob' });
    const { uid } = (await gateway.client.get(apiKeys, namespace, bobs.name)).metadata;
    const keys = [
      agentKeyOf(one.sandbox),
      await shownTo(gateway.alice, two.name),
      gateway.keys.clientKey(one.sandbox.metadata.uid, { apiKeyUid: uid, generation: 0 }),
    ];
    expect(await Promise.all(keys.map((key) => statusOf(one.path, key)))).toEqual([401, 401, 401]);
    expect(agent.seen).toEqual([]);
  });

  it('opens the settings of its sandbox, as long as its API key is valid', async () => {
    const { name } = await aSandbox();
    const { key, name: keyName } = await aKey();
    const session = await shownTo(key, name);
    const settings = () =>
      gateway.get(`/api/v1/sandboxes/${name}/settings/secrets`, {
        key: null,
        headers: keyed(session),
      });
    expect(await settings()).toMatchObject({ status: 200, json: { secrets: [] } });
    await gateway.send('DELETE', `/api/keys/${keyName}`);
    expect(await settings()).toMatchObject({ status: 401 });
  });

  it('of an API key that this replica has not heard of yet is waited for', async () => {
    const { name, path, sandbox } = await aSandbox();
    const behind = await gateway.replica();
    const { resource } = await issueKey({ client: gateway.client, namespace, owner: 'alice' });
    const session = gateway.keys.clientKey(sandbox.metadata.uid, {
      apiKeyUid: resource.metadata.uid,
      generation: 0,
    });
    expect(await statusOf(path, session, behind)).toBe(200);
    expect(name).toBe(sandbox.metadata.name);
    await behind.stop();
  });
});

describe('a rotation', () => {
  it('makes another key at once, keeps what the agent has, and ends what the old one has opened on every replica', async () => {
    const { sandbox, name, path } = await aSandbox();
    const before = await shownTo(gateway.alice, name);
    const sockets = [gateway, other].map((on) =>
      webSocket(`${path}/sockets/x`, { headers: keyed(before) }, on),
    );
    await Promise.all(sockets.map((socket) => once(socket, 'open')));
    agent.answer = (_request, response) => response.write('begin');
    const stream = await send(path, before, other);
    await once(stream, 'data');
    const ends = Promise.all([...sockets.map(closed), textOf(stream).catch(() => 'closed')]);
    expect(await rotate(name)).toMatchObject({ status: 200, json: { success: true } });
    expect(await ends).toEqual([4001, 4001, 'closed']);
    agent.reset();
    const after = await shownTo(gateway.alice, name);
    expect(after).not.toBe(before);
    expect(await opens(path, before)).toEqual([401, 401]);
    expect(await opens(path, after)).toEqual([200, 200]);
    // The agent has received nothing, and has the key that it had.
    expect(agent.seen.map(({ headers }) => headers['x-session-api-key'])).toEqual([
      agentKeyOf(sandbox),
      agentKeyOf(sandbox),
    ]);
    const { metadata, spec } = await gateway.client.get(sandboxes, namespace, name);
    expect([
      metadata.annotations?.[sessionKeyGenerationAnnotation],
      metadata.generation,
      spec,
    ]).toEqual(['1', 1, sandbox.spec]);
  });

  it('is the owner’s alone', async () => {
    const { name, path } = await aSandbox();
    const key = await shownTo(gateway.alice, name);
    const [theirs, ofUnknown] = [
      await rotate(name, { key: gateway.bob }),
      await rotate('sbx-none', { key: gateway.bob }),
    ];
    expect([theirs.status, ofUnknown.status]).toEqual([404, 404]);
    expect(await rotate(name, { key: null, headers: keyed(key) })).toMatchObject({ status: 401 });
    expect(await statusOf(path, key)).toBe(200);
  });

  it.each(unknownOutcomes)(
    'is one for requests at the same time, and for a write that ends with %s',
    async (_sentence, errorOf) => {
      const { name } = await aSandbox();
      const generation = async () =>
        (await gateway.client.get(sandboxes, namespace, name)).metadata.annotations?.[
          sessionKeyGenerationAnnotation
        ];
      const patch = gateway.client.mergePatch.bind(gateway.client);
      Object.assign(gateway.client, {
        mergePatch: async (...parameters: Parameters<typeof patch>) => {
          Object.assign(gateway.client, { mergePatch: patch });
          await patch(...parameters);
          throw errorOf();
        },
      });
      expect(await rotate(name)).toMatchObject({ status: 200 });
      expect(await generation()).toBe('1');
      const answers = await Promise.all(Array.from({ length: 5 }, () => rotate(name)));
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
      expect(Number(await generation())).toBeLessThanOrEqual(6);
    },
  );

  it('works for a paused sandbox, whose next record has another key', async () => {
    const { sandbox, name } = await aSandbox();
    const before = await shownTo(gateway.alice, name);
    const set = async (replicas: 0 | 1) =>
      gateway.seen(
        gateway.caches.sandboxes,
        await gateway.client.mergePatch(sandboxes, namespace, name, { spec: { replicas } }),
      );
    await set(0);
    expect(await shownTo(gateway.alice, name)).toBe('none');
    expect(await rotate(name)).toMatchObject({ status: 200 });
    await set(1);
    expect(await shownTo(gateway.alice, name)).not.toBe(before);
    expect(sandbox.spec.replicas).toBe(1);
  });

  it.each(['x', '-1', '1.5', '01', '1e3', '9999999999999999', ' 1'])(
    'that says %j has no key, until the next one',
    async (generation) => {
      const { sandbox, name, path } = await aSandbox();
      const before = await shownTo(gateway.alice, name);
      await annotate(sandbox, generation);
      expect(await shownTo(gateway.alice, name)).toBe('none');
      expect(await statusOf(path, before)).toBe(401);
      expect(await rotate(name)).toMatchObject({ status: 200 });
      const after = await shownTo(gateway.alice, name);
      expect(after).not.toBe(before);
      expect(await statusOf(path, after)).toBe(200);
    },
  );
});

describe('what an API key has opened', () => {
  const ending: readonly [string, (name: string) => Promise<unknown>][] = [
    ['is revoked', (name) => gateway.send('DELETE', `/api/keys/${name}`)],
    ['is deleted with kubectl', (name) => gateway.client.delete(apiKeys, namespace, name)],
    [
      'is disabled',
      (name) => gateway.client.mergePatch(apiKeys, namespace, name, { spec: { disabled: true } }),
    ],
    [
      'expires',
      (name) =>
        gateway.client.mergePatch(apiKeys, namespace, name, {
          spec: { expirationTime: new Date(Date.now() + 700).toISOString() },
        }),
    ],
  ];

  it.each(ending)(
    'ends when it %s, with what the keys that it made have opened, and nothing else',
    async (_case, end) => {
      const { name, path } = await aSandbox();
      const issuer = await aKey();
      const made = await gateway.post('/api/keys', { name: 'child' }, { key: issuer.key });
      const child = z.object({ key: z.string() }).parse(made.json).key;
      await eventually(
        'both replicas know the child',
        async () => (await other.get('/api/v1/users/me', { key: child })).status === 200,
      );
      const [session, ofChild, ofAlice] = [
        await shownTo(issuer.key, name),
        await shownTo(child, name),
        await shownTo(gateway.alice, name),
      ];
      const open = async (key: string, on: TestGateway) => {
        const socket = webSocket(`${path}/sockets/x`, { headers: keyed(key) }, on);
        await once(socket, 'open');
        return socket;
      };
      const stays = await open(ofAlice, gateway);
      const ends = await Promise.all([
        open(session, gateway),
        open(session, other),
        open(ofChild, gateway),
        open(ofChild, other),
      ]);
      const codes = Promise.all(ends.map(closed));
      await end(issuer.name);
      expect(await codes).toEqual([4001, 4001, 4001, 4001]);
      expect((await Promise.all([opens(path, session), opens(path, ofChild)])).flat()).toEqual([
        401, 401, 401, 401,
      ]);
      expect(await opens(path, ofAlice)).toEqual([200, 200]);
      expect(stays.readyState).toBe(WebSocket.OPEN);
      stays.terminate();
    },
  );

  it('costs the API server nothing, however many sandboxes there are', async () => {
    const names: string[] = [];
    for (let index = 0; index < 50; index++) names.push((await aSandbox()).name);
    const { key, name } = await aKey();
    const sessions = await Promise.all(names.map((sandbox) => shownTo(key, sandbox)));
    const calls: string[] = [];
    gateway.client.fault = ({ verb, plural }) => void calls.push(`${verb} ${plural}`);
    await gateway.send('DELETE', `/api/keys/${name}`);
    gateway.client.fault = () => undefined;
    expect(calls).toEqual(['delete apikeys']);
    const statuses = await Promise.all(
      sessions.map((session, index) =>
        statusOf(`/sandboxes/${names[index] ?? ''}/AGENT_SERVER`, session),
      ),
    );
    expect(new Set(statuses)).toEqual(new Set([401]));
  });
});

describe('a first message with the key', () => {
  const auth = (key: string, more: object = {}) =>
    JSON.stringify({ type: 'auth', session_api_key: key, ...more });
  const openSocket = async (path: string, options: ClientOptions = {}) => {
    const socket = webSocket(`${path}/sockets/events/1`, options);
    await once(socket, 'open');
    return socket;
  };

  it("is replaced by one with the agent's own, and everything behind it is passed on", async () => {
    const { sandbox, name, path } = await aSandbox();
    const key = await shownTo(gateway.alice, name);
    const socket = await openSocket(path);
    socket.ping();
    socket.send(auth(key, { more: 1 }));
    const [echo] = (await once(socket, 'message')) as [Buffer];
    expect(JSON.parse(echo.toString())).toEqual({
      type: 'auth',
      session_api_key: agentKeyOf(sandbox),
      more: 1,
    });
    for (const size of [1, 100_000]) {
      socket.send('x'.repeat(size));
      const [data] = (await once(socket, 'message')) as [Buffer];
      expect(data.length).toBe(size);
    }
    socket.close(3000);
    expect(await closed(socket)).toBe(3000);
  });

  it('may come in pieces, with a ping between them', async () => {
    const { sandbox, name, path } = await aSandbox();
    const key = await shownTo(gateway.alice, name);
    const socket = await openSocket(path);
    const text = auth(key);
    socket.send(text.slice(0, 10), { fin: false });
    socket.ping();
    socket.send(text.slice(10, 40), { fin: false });
    socket.send(text.slice(40), { fin: true });
    const [echo] = (await once(socket, 'message')) as [Buffer];
    expect(echo.toString()).toBe(auth(agentKeyOf(sandbox)));
    socket.terminate();
  });

  it.each<[string, (key: string) => string | Buffer]>([
    ['a wrong key', (key) => auth(`${key.slice(0, -4)}AAAA`)],
    ['no key', () => '{"type":"auth"}'],
    ['another type', (key) => JSON.stringify({ type: 'message', session_api_key: key })],
    ['no JSON', () => 'hello'],
    ['bytes', (key) => Buffer.from(auth(key))],
    ['more than a key', (key) => auth(key, { padding: 'x'.repeat(10_000) })],
  ])('with %s ends with 4001, and never reaches the agent', async (_case, messageOf) => {
    const { name, path } = await aSandbox();
    const key = await shownTo(gateway.alice, name);
    const received: string[] = [];
    agent.onSocket = (socket) =>
      socket.on('message', (data: Buffer) => received.push(data.toString()));
    const socket = await openSocket(path);
    const code = closed(socket);
    socket.send(messageOf(key));
    expect(await code).toBe(4001);
    await eventually('the agent knows', () => agent.sockets.size === 0);
    expect(received).toEqual([]);
  });

  it('ends with its key, too', async () => {
    const { name, path } = await aSandbox();
    const socket = await openSocket(path);
    socket.send(auth(await shownTo(gateway.alice, name)));
    await once(socket, 'message');
    const code = closed(socket);
    await rotate(name);
    expect(await code).toBe(4001);
  });

  it('is not needed where the handshake has the key, in the query too', async () => {
    const { sandbox, name, path } = await aSandbox();
    const key = await shownTo(gateway.alice, name);
    const socket = webSocket(`${path}/sockets/events/1?resend_mode=all&session_api_key=${key}`);
    await once(socket, 'open');
    expect(agent.seen[0]).toMatchObject({
      url: `/sockets/events/1?resend_mode=all&session_api_key=${agentKeyOf(sandbox)}`,
      headers: keyed(agentKeyOf(sandbox)),
    });
    socket.terminate();
    expect(
      await refused(webSocket(`${path}/sockets/events/1?session_api_key=${agentKeyOf(sandbox)}`)),
    ).toBe(401);
  });
});
