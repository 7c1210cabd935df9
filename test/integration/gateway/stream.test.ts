import type { IncomingMessage } from 'node:http';
import { issueKey } from '../../../src/gateway/auth/key.ts';
import { apiKeys } from '../../../src/resources/api-key.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { startTaskIdOf } from '../../../src/resources/ids.ts';
import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { newUuid } from '@conversation-operator/base/uuid';
import { eventually } from '../../support/eventually.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { StreamState } from '../../support/gateway/stream-state.ts';
import { TestGateway, namespace, type RequestOptions } from '../../support/gateway/test-gateway.ts';

const path = '/api/v1/stream';
const heartbeatMs = 15_000;

/** A client with an open stream. */
class Reader {
  readonly response: IncomingMessage;
  readonly state: StreamState;
  text = '';
  ended = false;
  #wake = Promise.withResolvers<undefined>();

  constructor(response: IncomingMessage, state: StreamState) {
    this.response = response.setEncoding('utf8');
    this.state = state;
    state.connect();
    response.on('data', (chunk: string) => {
      this.text += chunk;
      state.read(chunk);
      this.#notify();
    });
    response.on('close', () => {
      this.ended = true;
      this.#notify();
    });
    response.on('error', () => undefined);
  }

  async until(holds: (state: StreamState, reader: Reader) => boolean): Promise<void> {
    while (!holds(this.state, this)) {
      if (this.ended) throw new Error(`the stream ended with: ${this.text}`);
      await this.#wake.promise;
    }
  }

  end(): Promise<void> {
    return this.until((_state, { ended }) => ended);
  }

  #notify(): void {
    this.#wake.resolve(undefined);
    this.#wake = Promise.withResolvers();
  }
}

let gateway: TestGateway;
/** If set, the delay of the next heartbeats. */
let soonMs: number | undefined;
/** If set, the time after which a client that reads nothing is closed. */
let stallMs: number | undefined;
const clock: Clock = {
  ...systemClock,
  after: (delayMs, callback) => {
    const ownMs =
      delayMs === heartbeatMs ? soonMs : delayMs === 2 * heartbeatMs ? stallMs : undefined;
    return systemClock.after(ownMs ?? delayMs, callback);
  },
};
const readers: Reader[] = [];

beforeEach(async () => {
  soonMs = undefined;
  stallMs = undefined;
  gateway = await TestGateway.start({ clock });
});
afterEach(async () => {
  for (const { response } of readers.splice(0)) response.destroy();
  await gateway.stop();
});

async function open(
  options: RequestOptions & { readonly query?: string } = {},
  { of = gateway, state = new StreamState() } = {},
): Promise<Reader> {
  const response = await of.open('GET', `${path}${options.query ?? ''}`, options);
  if (response.statusCode !== 200) throw new Error(`the status is ${response.statusCode ?? ''}`);
  const reader = new Reader(response, state);
  readers.push(reader);
  return reader;
}
const openSynced = async (...args: Parameters<typeof open>) => {
  const reader = await open(...args);
  await reader.until(({ quota }) => quota !== undefined && quota !== null);
  return reader;
};
const newId = () => newUuid(Date.now());
const started = { start: { status: 'READY' as const, transitions: [] } };
const failed = {
  start: { status: 'ERROR' as const, error: 'The image is not there.', transitions: [] },
};

/** The fields of read records that a stream leaves out. */
interface Listed {
  readonly session_api_key?: string;
  readonly request?: object;
}

describe('the stream', () => {
  it('begins with the records of the reads, whose requests and session keys it leaves out', async () => {
    const agent = await StubAgent.start();
    try {
      const [ready, underWay, broken] = [newId(), newId(), newId()];
      await gateway.addSandbox('sbx-1', { status: agent.status });
      await gateway.addConversation(ready, { status: { ...started, sandboxName: 'sbx-1' } });
      await gateway.addConversation(underWay);
      await gateway.addConversation(broken, { status: failed });
      const { response, state, text } = await openSynced();
      expect(response.headers).toMatchObject({
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      });
      expect(text.startsWith('retry: 2000\n\n')).toBe(true);
      const read = async (of: string, ids: readonly string[]) =>
        (await gateway.get(`/api/v1/${of}${ids.join('&')}`)).json as Listed[];
      const listed = await read('app-conversations?', [
        `ids=${ready}`,
        `ids=${underWay}`,
        `ids=${broken}`,
      ]);
      expect(listed[0]?.session_api_key).toMatch(/./);
      const withoutKey = (record: object) => ({ ...record, session_api_key: null });
      expect([...state.conversations.values()]).toEqual(
        expect.arrayContaining(listed.map(withoutKey)),
      );
      expect(state.conversations.size).toBe(3);
      expect([...state.sandboxes.values()]).toEqual(
        (await read('sandboxes?', ['id=sbx-1'])).map(withoutKey),
      );
      const tasks = await read('app-conversations/start-tasks?', [
        `ids=${startTaskIdOf(underWay)}`,
        `ids=${startTaskIdOf(broken)}`,
      ]);
      expect(
        [...state.startTasks.values()].sort((one, other) => (one.status < other.status ? 1 : -1)),
      ).toEqual(
        tasks.map(({ request, ...task }) => ({
          ...task,
          request: { ...request, initial_message: null },
        })),
      );
      expect(state.quota).toEqual((await gateway.get('/api/v1/quota')).json);
      expect(text).not.toContain(listed[0]?.session_api_key);
    } finally {
      await agent.stop();
    }
  });

  it('sends changes and removals, and of another owner nothing', async () => {
    const [alice, bob] = [await openSynced(), await openSynced({ key: gateway.bob })];
    const [id, sibling] = [newId(), newId()];
    await gateway.addConversation(id);
    await gateway.addSandbox('sbx-1');
    await alice.until(({ startTasks, sandboxes: all }) => startTasks.size === 1 && all.size === 1);
    await gateway.setStatus(id, { ...started, title: 'Better' });
    await alice.until(({ startTasks }) => startTasks.size === 0);
    await alice.until(({ conversations: all }) => all.get(id)?.title === 'Better');
    await gateway.client.delete(conversations, namespace, id);
    await gateway.client.delete(sandboxes, namespace, 'sbx-1');
    await alice.until((state) => state.conversations.size === 0 && state.sandboxes.size === 0);
    await gateway.addConversation(sibling, { spec: { owner: 'bob' } });
    await bob.until(({ conversations: all }) => all.size === 1);
    expect(bob.text).not.toContain(id);
    expect(alice.text).not.toContain(sibling);
  });

  it('never has a session key', async () => {
    const agent = await StubAgent.start();
    try {
      const id = newId();
      await gateway.addConversation(id, { status: { ...started, sandboxName: 'sbx-1' } });
      const reader = await openSynced();
      await gateway.addSandbox('sbx-1', { status: agent.status });
      await reader.until((state) => state.conversations.get(id)?.sandbox_status === 'RUNNING');
      const again = await openSynced();
      const [record] = (await gateway.get('/api/v1/sandboxes?id=sbx-1')).json as {
        readonly session_api_key: string;
      }[];
      expect(record?.session_api_key).toMatch(/./);
      for (const { text, state } of [reader, again]) {
        expect(state.sandboxes.get('sbx-1')?.exposed_urls).toHaveLength(1);
        expect(text).not.toContain(record?.session_api_key);
        expect([...text.matchAll(/"session_api_key":(?!null)/g)]).toEqual([]);
      }
    } finally {
      await agent.stop();
    }
  });

  it.each<[string, RequestOptions & { readonly query?: string }]>([
    ['the header', { headers: { 'last-event-id': '7'.repeat(10_000) } }],
    ['the query', { query: '?last_event_id=1' }],
  ])('sends a snapshot whatever id %s has', async (_case, options) => {
    await openSynced();
    expect((await openSynced(options)).state.snapshots).toBe(1);
  });

  it('sends comments while nothing happens', async () => {
    soonMs = 5;
    const reader = await openSynced();
    await reader.until(({ comments }) => comments >= 2);
  });

  it('is closed properly by a shutdown', async () => {
    const reader = await openSynced();
    await gateway.gateway.close();
    await reader.end();
    expect(reader.state.closed).toBe('shutdown');
  });

  it.each<[string, (name: string) => Promise<unknown>]>([
    ['is revoked', (name) => gateway.send('DELETE', `/api/keys/${name}`)],
    [
      'is disabled',
      (name) => gateway.client.mergePatch(apiKeys, namespace, name, { spec: { disabled: true } }),
    ],
    [
      'expires',
      (name) =>
        gateway.client.mergePatch(apiKeys, namespace, name, {
          spec: { expirationTime: new Date(Date.now() + 300).toISOString() },
        }),
    ],
  ])('is closed when its API key %s, and no other one is', async (_case, endKey) => {
    const { key, resource } = await issueKey({ client: gateway.client, namespace, owner: 'alice' });
    await gateway.seen(gateway.caches.apiKeys, resource);
    const [own, other] = [await openSynced({ key }), await openSynced()];
    await endKey(resource.metadata.name);
    await own.end();
    expect(own.state.closed).toBe('key-invalid');
    const id = newId();
    await gateway.addConversation(id);
    await other.until((state) => state.conversations.has(id));
    expect(own.text).not.toContain(id);
  });

  it('is closed when its client does not read, and counted', async () => {
    const tags = Object.fromEntries(
      Array.from({ length: 500 }, (_, index) => [`tag-${index}`, 'x'.repeat(256)]),
    );
    for (let index = 0; index < 200; index++)
      await gateway.addConversation(`c-${index}`, { spec: { tags } });
    stallMs = 300;
    const response = await gateway.open('GET', path);
    const metrics = () => gateway.metrics.registry.metrics();
    await eventually('the stream is closed', async () =>
      (await metrics()).includes('closed_streams_total{code="slow-reader"} 1'),
    );
    expect(await metrics()).toContain('open_streams 0');
    response.destroy();
  });

  it('answers HEAD, and holds nothing open', async () => {
    const response = await gateway.open('HEAD', path);
    expect(response.headers['content-type']).toBe('text/event-stream; charset=utf-8');
    expect(await gateway.metrics.registry.metrics()).not.toContain('open_streams 1');
  });

  it('is refused before the caches are filled', async () => {
    const own = await TestGateway.start({}, { synced: false });
    try {
      expect(await own.get(path)).toMatchObject({ status: 503, json: { code: 'unavailable' } });
    } finally {
      await own.stop();
    }
  });

  it.each([
    ['one owner', { perOwner: 2 }, 429, 'share-exceeded'],
    ['one key', { perSandbox: 2 }, 429, 'share-exceeded'],
    ['all', { total: 2 }, 503, 'overloaded'],
  ] as const)(
    'is refused beyond the bound of %s, until one ends',
    async (_case, liveStreams, status, code) => {
      const own = await TestGateway.start({ pools: { liveStreams } });
      try {
        const first = await openSynced({}, { of: own });
        await openSynced({}, { of: own });
        expect(await own.get(path)).toMatchObject({
          status,
          json: { code },
          headers: { 'retry-after': '1' },
        });
        if ('perOwner' in liveStreams) {
          const second = await own.issueKey('alice');
          expect(await own.get(path, { key: second })).toMatchObject({ status });
          await openSynced({ key: own.bob }, { of: own });
        }
        if ('perSandbox' in liveStreams)
          await openSynced({ key: await own.issueKey('alice') }, { of: own });
        first.response.destroy();
        await eventually(
          'there is room again',
          async () => (await own.open('GET', path)).statusCode === 200,
        );
      } finally {
        for (const { response } of readers) response.destroy();
        await own.stop();
      }
    },
  );
});
