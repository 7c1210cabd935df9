import { newUuid } from '@conversation-operator/base/uuid';
import { StoreError } from '@conversation-operator/object-store/object-store';
import type { ArchiveStatus } from '../../../src/resources/conversation-status.ts';
import { eventually } from '../../support/eventually.ts';
import {
  FakeHistory,
  hangs,
  storedEvents,
  type StoredEvent,
} from '../../support/gateway/fake-history.ts';
import { answerFromLog } from '../../support/gateway/log-agent.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';
import { unzip } from '../../support/unzip.ts';

const time = '2026-01-01T00:00:00Z';
let gateway: TestGateway;
let agent: StubAgent;
let history: FakeHistory;
let id: string;

beforeEach(async () => {
  history = new FakeHistory();
  agent = await StubAgent.start();
  gateway = await TestGateway.start({ history });
  id = newUuid(Date.now());
});
afterEach(async () => {
  await gateway.stop();
  await agent.stop();
});

const setUp = async (replicas: 0 | 1, archive?: ArchiveStatus): Promise<void> => {
  await gateway.addSandbox('sbx', { replicas, status: agent.status });
  await gateway.addConversation(id, {
    status: {
      start: { status: 'READY', transitions: [{ status: 'READY', time }] },
      sandboxName: 'sbx',
      ...(archive === undefined ? {} : { archive }),
    },
  });
};
const open = (key = gateway.alice, signal?: AbortSignal): Promise<Response> =>
  fetch(`${gateway.url}/api/v1/app-conversations/${id}/download`, {
    headers: { authorization: `Bearer ${key}` },
    ...(signal === undefined ? {} : { signal }),
  });
const bytesOf = async (response: Response): Promise<Buffer> =>
  Buffer.from(await response.arrayBuffer());
const codeOf = async (response: Response): Promise<string> =>
  `${response.status} ${((await response.json()) as { readonly code: string }).code}`;

const many = storedEvents(235);

/** The files of a download of these events, without the record. */
const filesOf = (events: readonly StoredEvent[]) =>
  events.map((event, index) => [
    `event_${String(index).padStart(6, '0')}_${event.id}.json`,
    JSON.stringify(event),
  ]);

describe('a download', () => {
  it.each<[string, 0 | 1]>([
    ['of an archive', 0],
    ['from a running agent', 1],
  ])('%s has the record and each event', async (_case, replicas) => {
    agent.answer = answerFromLog(() => many);
    await setUp(replicas, history.archived(many));
    const response = await open();
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'application/zip',
    ]);
    expect(response.headers.get('content-disposition')).toBe(
      `attachment; filename="conversation_${id}.zip"`,
    );
    const files = await unzip(await bytesOf(response));
    expect(files.slice(0, -1)).toEqual(filesOf(many));
    const [name, text = ''] = files.at(-1) ?? [];
    expect(name).toBe('meta.json');
    const meta = JSON.parse(text) as object;
    expect(meta).toMatchObject({ id, title: 'Say hello.', event_count: 235 });
    expect(meta).not.toHaveProperty('session_api_key');
    expect(agent.connections.size > 0).toBe(replicas === 1);
  });

  it.each<[string, () => object]>([
    ['begins again', () => ({ items: storedEvents(100), next_page_id: 'e100' })],
    [
      'sends more than was asked for',
      () => ({ items: storedEvents(101, 100), next_page_id: null }),
    ],
    ['sends nothing of what it announced', () => ({ items: [], next_page_id: 'e100' })],
    ['sends no page', () => ({ items: 'x' })],
  ])('breaks where the agent %s, after it has begun', async (_case, second) => {
    const log = answerFromLog(() => many);
    agent.answer = (request, response) => {
      if (request.url?.includes('page_id') !== true) {
        log(request, response);
        return;
      }
      response.setHeader('content-type', 'application/json').end(JSON.stringify(second()));
    };
    await setUp(1);
    const response = await open();
    expect(response.status).toBe(200);
    await expect(bytesOf(response)).rejects.toThrow();
  });

  it('breaks where the agent forgets the conversation in the middle, and begins no second time', async () => {
    const log = answerFromLog(() => many);
    agent.answer = (request, response) => {
      if (request.url?.includes('page_id') === true) response.statusCode = 404;
      log(request, response);
    };
    await setUp(1, history.archived(many));
    await expect(bytesOf(await open())).rejects.toThrow();
    expect(history.calls).toEqual([]);
  });

  it('comes from the archive where the agent does not know the conversation', async () => {
    agent.answer = (_request, response) => {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}');
    };
    await setUp(1, history.archived(many));
    expect((await unzip(await bytesOf(await open()))).slice(0, -1)).toEqual(filesOf(many));
  });

  it('reads large events in smaller pages', async () => {
    const large = storedEvents(100).map((event) => ({ ...event, text: 'x'.repeat(100_000) }));
    agent.answer = answerFromLog(() => large);
    await setUp(1);
    const files = await unzip(await bytesOf(await open()), 'names');
    expect(files).toHaveLength(101);
  });

  it('breaks where the archive fails in the middle, and is no archive then', async () => {
    await setUp(0, history.archived(many));
    let parts = 0;
    history.before = (method) => {
      if (method === 'all' && ++parts === 2) throw new StoreError('unavailable', 'gone');
    };
    const response = await open();
    expect(response.status).toBe(200);
    const chunks: Uint8Array[] = [];
    const read = async () => {
      for await (const chunk of response.body ?? []) chunks.push(chunk as Uint8Array);
    };
    await expect(read()).rejects.toThrow();
    await expect(unzip(Buffer.concat(chunks))).rejects.toThrow(/BadZipFile/);
  });

  it('ends quietly where the client leaves in the middle', async () => {
    await setUp(0, history.archived(many));
    const signals: (AbortSignal | undefined)[] = [];
    history.before = (method, signal) => {
      if (method !== 'all') return undefined;
      signals.push(signal);
      return signals.length > 1 ? hangs(signal) : undefined;
    };
    const leaving = new AbortController();
    const response = await open(gateway.alice, leaving.signal);
    await eventually('the second part is read', () => signals.length === 2);
    leaving.abort();
    await expect(bytesOf(response)).rejects.toThrow();
    await eventually('the read is aborted', () => signals[1]?.aborted === true);
    history.before = () => undefined;
    // The slot of the closed download is free again.
    for (const _turn of [1, 2, 3]) expect((await bytesOf(await open())).length).toBeGreaterThan(0);
    expect(gateway.log.filter(({ level }) => level === 'error' || level === 'warn')).toEqual([]);
  });

  it('takes one of two places of its owner', async () => {
    await setUp(0, history.archived(many));
    history.before = (method, signal) => (method === 'all' ? hangs(signal) : undefined);
    const leaving = new AbortController();
    const others = [1, 2].map(() => open(gateway.alice, leaving.signal).catch(() => undefined));
    await eventually('two are under way', () => history.calls.length === 4);
    expect(await codeOf(await open())).toBe('429 share-exceeded');
    expect(await codeOf(await open(gateway.bob))).toBe('404 not-found');
    leaving.abort();
    await Promise.all(others);
  });

  it.each<[string, 0 | 1]>([
    ['an archive', 0],
    ['a running agent', 1],
  ])('is refused for too many events of %s', async (_case, replicas) => {
    const events = storedEvents(100_001);
    agent.answer = answerFromLog(() => events);
    await setUp(replicas, history.archived(events));
    const response = await open();
    expect(response.status).toBe(413);
    expect(await response.json()).toMatchObject({
      code: 'history-too-large',
      detail: expect.stringContaining(`conversation-operator archive export ${id}`) as unknown,
    });
    expect(history.calls.map(({ method }) => method)).toEqual(replicas === 0 ? ['count'] : []);
  });
});
