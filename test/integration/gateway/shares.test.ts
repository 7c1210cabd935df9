import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { WebSocket } from 'ws';
import { newUuid } from '@conversation-operator/base/uuid';
import { eventually } from '../../support/eventually.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

/** Reads of the API server wait until `release`. */
function holdReads({ client }: TestGateway) {
  const names: string[] = [];
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const get = client.get.bind(client);
  const held: typeof get = async (...parameters) => {
    names.push(parameters[2]);
    await promise;
    return get(...parameters);
  };
  Object.assign(client, { get: held });
  return { names, release: () => resolve(undefined) };
}

describe('calls to the API server', () => {
  it('of one owner use half of the connections, and those of others do not wait for them', async () => {
    const gateway = await TestGateway.start();
    const reads = holdReads(gateway);
    try {
      const ids = () => Array.from({ length: 100 }, () => `ids=${newUuid(Date.now())}`).join('&');
      const slow = Array.from({ length: 4 }, () =>
        gateway.get(`/api/v1/app-conversations?${ids()}`),
      );
      await eventually('some of the calls are under way', () => reads.names.length >= 6);
      const id = newUuid(Date.now());
      const bobs = gateway.get(`/api/v1/app-conversations?ids=${id}`, { key: gateway.bob });
      await eventually("bob's call is under way", () => reads.names.includes(id));
      expect(reads.names).toHaveLength(7);
      reads.release();
      expect(await bobs).toMatchObject({ status: 200, json: [] });
      expect((await Promise.all(slow)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    } finally {
      reads.release();
      await gateway.stop();
    }
  });
});

describe('requests and WebSockets to agents', () => {
  let gateway: TestGateway;
  let agent: StubAgent;
  const open: IncomingMessage[] = [];
  const sockets: WebSocket[] = [];
  const path = (sandbox: string) => `/sandboxes/${sandbox}/AGENT_SERVER`;

  beforeAll(async () => {
    agent = await StubAgent.start();
    gateway = await TestGateway.start({ proxyLimits: { total: 16, perSandbox: 16 } });
    for (const [sandbox, owner] of [
      ['alice-1', 'alice'],
      ['alice-2', 'alice'],
      ['bob-1', 'bob'],
    ] as const)
      await gateway.addSandbox(sandbox, { owner, status: agent.status });
  });
  afterEach(() => {
    for (const response of open.splice(0)) response.destroy();
    for (const socket of sockets.splice(0)) socket.terminate();
    agent.reset();
  });
  afterAll(async () => {
    await gateway.stop();
    await agent.stop();
  });

  const sessionKey = (name: string) => {
    const sandbox = gateway.caches.sandboxes.store.get(namespace, name);
    if (sandbox === undefined) throw new Error(`${name} does not exist`);
    return gateway.sessionKeyOf(sandbox);
  };
  const auth = (sandbox: string) =>
    JSON.stringify({ type: 'auth', session_api_key: sessionKey(sandbox) });
  const request = async (sandbox: string, key = true) => {
    const headers = key ? { 'x-session-api-key': sessionKey(sandbox) } : {};
    const response = await gateway.open('GET', `${path(sandbox)}/alive`, { key: null, headers });
    open.push(response);
    return response.statusCode ?? 0;
  };
  const webSocket = async (sandbox: string, key = true): Promise<WebSocket | number> => {
    const headers = key ? { 'x-session-api-key': sessionKey(sandbox) } : {};
    const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}${path(sandbox)}/sockets/events`, {
      headers,
    });
    sockets.push(socket);
    socket.on('error', () => undefined);
    const refused = once(socket, 'unexpected-response').then(
      ([, response]) => (response as IncomingMessage).statusCode ?? 0,
    );
    return Promise.race([once(socket, 'open').then(() => socket), refused]);
  };
  /** An answer that has begun and does not end. */
  const hang = () => {
    agent.answer = (_request, response) => response.write('{');
  };

  it("of all of one owner's sandboxes have a quarter of the room, so that others find some", async () => {
    hang();
    expect([
      await request('alice-1'),
      await request('alice-1'),
      await request('alice-2'),
      await request('alice-2'),
    ]).toEqual([200, 200, 200, 200]);
    expect(await request('alice-1')).toBe(429);
    expect(await webSocket('alice-2')).toBe(429);
    expect(await request('bob-1')).toBe(200);
    expect(await webSocket('bob-1')).toBeInstanceOf(WebSocket);
  });

  it('without a key take nothing of what is for those with one', async () => {
    hang();
    expect(await request('alice-1', false)).toBe(200);
    expect(await request('alice-1', false)).toBe(429);
    expect([await request('alice-1'), await request('alice-2')]).toEqual([200, 200]);
    expect(await request('bob-1', false)).toBe(200);
  });

  it('that show their key in the first message count as its owner from then on', async () => {
    const first = await webSocket('alice-1', false);
    expect(first).toBeInstanceOf(WebSocket);
    expect(await webSocket('alice-1', false)).toBe(429);
    if (first instanceof WebSocket) {
      first.send(auth('alice-1'));
      await once(first, 'message');
    }
    const second = await webSocket('alice-1', false);
    expect(second).toBeInstanceOf(WebSocket);
    hang();
    expect([await request('alice-1'), await request('alice-2'), await request('alice-2')]).toEqual([
      200, 200, 200,
    ]);
    // No room is left for a second one with a key.
    if (second instanceof WebSocket) {
      second.send(auth('alice-1'));
      const [code] = (await once(second, 'close')) as [number];
      expect(code).toBe(1013);
    }
  });
});
