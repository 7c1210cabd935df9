import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import {
  createCallbackServer,
  type CallbackServer,
  type CallbackRequest,
} from '../../../src/gateway/callback-server/callback-server.ts';
import { gatewayIndexers } from '../../../src/gateway/lookup/cache.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { IndexedStore } from '@conversation-operator/kube/store';
import { silentLogger, type Logger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../../src/observability/metrics.ts';
import type { Sandbox } from '../../../src/resources/sandbox.ts';
import { readBody } from '@conversation-operator/http/body/json-body';
import { eventually } from '../../support/eventually.ts';
import { openRaw, sendRaw, verdictOf } from '../../support/gateway/raw-http.ts';
import { HeldClock } from '../../support/held-clock.ts';
import { quietCache } from '../../support/gateway/quiet-cache.ts';
import { aSandbox } from '../../support/builders.ts';

describe("the gateway's agent side", () => {
  const calls: CallbackRequest[] = [];
  let side: CallbackServer;
  let url: string;
  beforeAll(async () => {
    const store = new IndexedStore<Sandbox>(gatewayIndexers.sandboxes);
    const known = aSandbox({ name: 'known' });
    store.set({ ...known, metadata: { ...known.metadata, namespace: 'agents' } });
    const echo = {
      name: 'echo',
      handle: (call: CallbackRequest) => {
        calls.push(call);
        if (call.path[0] === 'broken') throw new Error('10.0.0.1 is broken');
        call.response.statusCode = 204;
        call.response.end();
        return Promise.resolve();
      },
    };
    side = createCallbackServer({
      handlers: [echo],
      sandboxes: quietCache(store),
      namespace: 'agents',
      host: '127.0.0.1',
      port: 0,
      clock: systemClock,
      logger: silentLogger,
      metrics: createMetrics(),
    });
    url = `http://127.0.0.1:${(await side.listen()).port}`;
  });
  beforeEach(() => calls.splice(0));
  afterAll(() => side.close());

  it('hands a request on to its part, with the sandbox that it names', async () => {
    expect((await fetch(`${url}/echo/known/a/b%20c?d=e`, { method: 'POST' })).status).toBe(204);
    expect(calls[0]?.sandbox?.metadata.name).toBe('known');
    expect(calls[0]?.path).toEqual(['a', 'b c']);
    expect(calls[0]?.query.get('d')).toBe('e');
  });

  it('leaves it to the part what an unknown sandbox is answered', async () => {
    expect((await fetch(`${url}/echo/unknown/a`)).status).toBe(204);
    expect(calls[0]?.sandbox).toBeUndefined();
  });

  it.each([
    '/',
    '/echo',
    '/echo/known',
    '/echo/known/',
    '/echo//a',
    '/echo/known/a//b',
    '/echo/known/%2e%2e/a',
    '/echo/known/a%2Fb',
    '/echo/known/%ff',
    '/other/known/a',
    '/api/v1/users/me',
    '/metrics',
  ])('has nothing at %s', async (path) => {
    const answer = await fetch(`${url}${path}`);
    expect([answer.status, await answer.json()]).toMatchObject([404, { code: 'route-not-found' }]);
    expect(calls).toEqual([]);
  });

  it.each(['//evil.example/known/a', '/%2Fevil.example/a', '/.//echo/known/a'])(
    'refuses %s, which could be taken for a host',
    async (path) => {
      const { port } = new URL(url);
      const outcome = await sendRaw(Number(port), `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
      expect(verdictOf(outcome)).toBe('400 malformed-request');
      expect(calls).toEqual([]);
    },
  );

  it('says nothing of what went wrong inside', async () => {
    const answer = await fetch(`${url}/echo/known/broken`);
    expect(answer.status).toBe(500);
    expect(await answer.text()).not.toContain('10.0.0.1');
  });

  it('leaves no line in the log but for debugging where the caller leaves before its answer', async () => {
    const lines: string[] = [];
    const at = (level: string) => () => void lines.push(level);
    const logger: Logger = {
      error: at('error'),
      warn: at('warn'),
      info: at('info'),
      debug: at('debug'),
      enabled: () => true,
      child: () => logger,
    };
    let isWaiting = false;
    const server = createCallbackServer({
      handlers: [
        {
          name: 'wait',
          handle: ({ signal }) =>
            new Promise((_resolve, reject) => {
              isWaiting = true;
              signal.addEventListener('abort', () => reject(signal.reason as Error));
            }),
        },
      ],
      sandboxes: {
        store: new IndexedStore<Sandbox>(gatewayIndexers.sandboxes),
        addHandler: () => () => undefined,
        hasSynced: true,
      },
      namespace: 'agents',
      host: '127.0.0.1',
      port: 0,
      clock: systemClock,
      logger,
      metrics: createMetrics(),
    });
    const { port } = await server.listen();
    try {
      const socket = await openRaw(port);
      socket.write('GET /wait/known/a HTTP/1.1\r\nHost: x\r\n\r\n');
      await eventually('the handler waits', () => isWaiting);
      socket.destroy();
      await eventually('the request is over', () => lines.length > 0);
      expect(lines).toEqual(['debug']);
    } finally {
      await server.close();
    }
  });

  it("lets the sandboxes of one owner have a quarter of the connections, by their pods' addresses", async () => {
    const store = new IndexedStore<Sandbox>(gatewayIndexers.sandboxes);
    for (const [name, owner, podIP] of [
      ['a1', 'alice', '127.0.0.11'],
      ['a2', 'alice', '127.0.0.12'],
      ['b1', 'bob', '127.0.0.13'],
    ] as const)
      store.set(aSandbox({ name, owner, status: { podIP } }));
    const small = createCallbackServer({
      handlers: [],
      sandboxes: quietCache(store),
      maxConnections: 8,
      namespace: 'agents',
      host: '127.0.0.1',
      port: 0,
      clock: systemClock,
      logger: silentLogger,
      metrics: createMetrics(),
    });
    const { port } = await small.listen();
    const sockets: Socket[] = [];
    const isLetIn = async (localAddress: string) => {
      const socket = connect({ port, host: '127.0.0.1', localAddress });
      sockets.push(socket);
      socket.on('error', () => undefined).write('GET /alive HTTP/1.1\r\nHost: x\r\n\r\n');
      return Promise.race([
        once(socket, 'data').then(() => true),
        once(socket, 'close').then(() => false),
      ]);
    };
    try {
      expect([
        await isLetIn('127.0.0.11'),
        await isLetIn('127.0.0.12'),
        await isLetIn('127.0.0.11'),
      ]).toEqual([true, true, false]);
      expect(await isLetIn('127.0.0.13')).toBe(true);
    } finally {
      for (const socket of sockets) socket.destroy();
      await small.close();
    }
  });

  describe('with slow clients', () => {
    const maxConnections = 32;
    const requestMs = 60_000;
    let clock: HeldClock;
    let slow: CallbackServer;
    let port: number;
    const sockets: Socket[] = [];
    const reads: string[] = [];
    /** Reads the body of each request, for the sandbox that the request names. */
    const reader = (name: string, limitsBody: boolean) => ({
      name,
      limitsBody,
      handle: async ({ request, response, sandbox, countFor }: CallbackRequest) => {
        if (sandbox !== undefined) countFor(sandbox);
        reads.push(name);
        await readBody(request, 1000);
        response.end();
      },
    });
    beforeEach(async () => {
      const store = new IndexedStore<Sandbox>(gatewayIndexers.sandboxes);
      for (const [name, owner] of [
        ['a1', 'alice'],
        ['a2', 'alice'],
        ['b1', 'bob'],
      ] as const)
        store.set(aSandbox({ name, owner }));
      clock = new HeldClock(requestMs);
      slow = createCallbackServer({
        handlers: [reader('mcp', false), reader('git', true)],
        sandboxes: quietCache(store),
        namespace: 'default',
        maxConnections,
        host: '127.0.0.1',
        port: 0,
        clock,
        logger: silentLogger,
        metrics: createMetrics(),
      });
      ({ port } = await slow.listen());
    });
    afterEach(async () => {
      for (const socket of sockets.splice(0)) socket.destroy();
      reads.splice(0);
      await slow.close();
    });

    /** Sends all but the end of a body. Returns what the server answers. */
    async function begin(path: string) {
      const socket = await openRaw(port);
      sockets.push(socket);
      const state = { answer: '', isClosed: false };
      socket.on('data', (chunk: Buffer) => (state.answer += chunk.toString()));
      socket.once('close', () => (state.isClosed = true));
      socket.write(
        `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{`,
      );
      return state;
    }
    const isAlive = async () => (await fetch(`http://127.0.0.1:${port}/alive`)).ok;

    it('ends a body that is late, but one that its handler limits', async () => {
      const [late, limited] = [await begin('/mcp/unknown/x'), await begin('/git/unknown/x')];
      await eventually('both are read', () => reads.length === 2);
      clock.pass();
      await eventually('the late one is closed', () => late.isClosed);
      expect(late.answer).toMatch(/^HTTP\/1\.1 408 /);
      expect(limited).toEqual({ answer: '', isClosed: false });
    });

    it('is alive while bodies take every connection', async () => {
      const all = [];
      for (let index = 0; index < maxConnections; index++) all.push(await begin(`/mcp/unknown/x`));
      await eventually('all are read', () => reads.length === maxConnections);
      expect(await isAlive()).toBe(true);
      const another = await begin('/mcp/b1/x');
      await eventually('another one is refused', () => another.isClosed);
      expect(another.answer).toMatch(/^HTTP\/1\.1 503 /);
      expect(all.filter(({ isClosed }) => isClosed)).toEqual([]);
    });

    it('lets one sandbox have a sixteenth of the connections, and its owner a quarter', async () => {
      const own: Awaited<ReturnType<typeof begin>>[] = [];
      for (let index = 0; index < 3; index++) own.push(await begin('/mcp/a1/x'));
      await eventually('the third one is refused', () => own[2]?.isClosed === true);
      expect(own[2]?.answer).toMatch(/^HTTP\/1\.1 503 .*too-many-connections/s);
      await begin('/mcp/a2/x');
      await begin('/mcp/b1/x');
      await eventually('other sandboxes are served', () => reads.length === 4);
    });
  });

  it('is alive', async () => {
    expect(await (await fetch(`${url}/alive`)).json()).toEqual({ status: 'ok' });
  });
});
