import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { newUuid } from '@conversation-operator/base/uuid';
import { StoreError } from '@conversation-operator/object-store/object-store';
import { ArchiveError } from '../../../src/archive/layout.ts';
import type { ArchiveStatus, StartStatus } from '../../../src/resources/conversation-status.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { eventually } from '../../support/eventually.ts';
import { FakeHistory, hangs, headOf, storedEvents } from '../../support/gateway/fake-history.ts';
import { answerFromLog } from '../../support/gateway/log-agent.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { TestGateway, namespace, type Answer } from '../../support/gateway/test-gateway.ts';

const time = '2026-01-01T00:00:00Z';
const expired: ArchiveStatus = { events: 0, bytes: 0, expiredTime: time };

interface Page {
  readonly items: readonly { readonly id: string }[];
  readonly next_page_id: string | null;
}
const pageOf = ({ json }: Answer): Page => json as Page;
const idsOf = (answer: Answer): readonly string[] => pageOf(answer).items.map(({ id }) => id);
const codeOf = ({ status, json }: Answer): string =>
  status === 200 ? '200' : `${status} ${(json as { readonly code: string }).code}`;

/** Deadlines of archives pass at once. */
const hasty: Clock = {
  ...systemClock,
  after: (delayMs, callback) => systemClock.after(delayMs === 15_000 ? 500 : delayMs, callback),
};

const history = new FakeHistory();
let gateway: TestGateway;
let agent: StubAgent;
let id: string;

beforeEach(async () => {
  history.heads.clear();
  history.calls.length = 0;
  history.before = () => undefined;
  agent = await StubAgent.start();
  id = newUuid(Date.now());
});
afterEach(async () => {
  history.stored.clear();
  await gateway.stop();
  await agent.stop();
});

const path = (what: string) => `/api/v1/conversation/${id}/events/${what}`;
const byId = (...ids: readonly string[]) =>
  `/api/v1/conversation/${id}/events?${ids.map((each) => `id=${encodeURIComponent(each)}`).join('&')}`;
interface Wish {
  readonly archive?: ArchiveStatus;
  readonly replicas?: 0 | 1;
  readonly start?: StartStatus;
  /** Whether the agent of the paused sandbox runs still. */
  readonly stops?: boolean;
}
async function setUp(wish: Wish): Promise<void> {
  const { archive, replicas = 0, start = 'READY', stops = false } = wish;
  const status = { ...agent.status, ...(stops ? { containerID: 'container-1' } : {}) };
  await gateway.addSandbox('sbx', { replicas, status });
  await gateway.addConversation(id, {
    status: {
      start: { status: start, transitions: [{ status: start, time }] },
      sandboxName: 'sbx',
      ...(archive === undefined ? {} : { archive }),
    },
  });
}
async function switchTo(replicas: 0 | 1): Promise<void> {
  const updated = await gateway.client.mergePatch(sandboxes, namespace, 'sbx', {
    spec: { replicas },
  });
  await gateway.seen(gateway.caches.sandboxes, updated);
}

describe('the events of a conversation', () => {
  it.each<[string, Wish & { readonly isOff?: boolean }, string, string?]>([
    ['paused, archived', { archive: history.archived(storedEvents(3)) }, '200'],
    ['failed start', { start: 'ERROR' }, '409 archive-empty'],
    ['paused, nothing archived', {}, '409 archive-empty'],
    ['paused, expired', { archive: expired }, '410 archive-expired'],
    ['starting', { start: 'PREPARING_REPOSITORY' }, '200', '409 archive-empty'],
    [
      'starting, in a running sandbox',
      { start: 'WORKING', replicas: 1 },
      '200',
      '409 archive-empty',
    ],
    ['starting, no archives', { start: 'WORKING', isOff: true }, '200', '409 archive-disabled'],
    ['paused, no archives', { isOff: true }, '409 archive-disabled'],
    ['failed start, no archives', { start: 'ERROR', isOff: true }, '409 archive-disabled'],
    ['running, no archives', { replicas: 1, isOff: true }, '200'],
    ['running', { replicas: 1 }, '200'],
  ])('%s', async (_case, { isOff = false, ...wish }, code, ofDownload = code) => {
    gateway = await TestGateway.start(isOff ? {} : { history });
    history.archived(storedEvents(3));
    agent.answer = answerFromLog(() => storedEvents(3));
    await setUp(wish);
    const [found, count] = [await gateway.get(path('search')), await gateway.get(path('count'))];
    const byIds = await gateway.get(byId('e2', 'none', 'e0', 'e2'));
    expect([found, count, byIds].map(codeOf)).toEqual([code, code, code]);
    const isThere = code === '200' && ofDownload === '200';
    if (code === '200') {
      expect(idsOf(found)).toEqual(isThere ? ['e0', 'e1', 'e2'] : []);
      expect(count.json).toBe(isThere ? 3 : 0);
      const [first, , third] = isThere ? storedEvents(3) : [null, null, null];
      expect(byIds.json).toEqual([third, null, first, third]);
    }
    const download = `/api/v1/app-conversations/${id}/download`;
    if (isThere) expect((await gateway.open('HEAD', download)).statusCode).toBe(200);
    else expect(codeOf(await gateway.get(download))).toBe(ofDownload);
  });

  it.each<[string, Wish]>([
    ['a head that is gone', { archive: { head: headOf(2), events: 2, bytes: 10 } }],
    ['no head', {}],
    ['no head, after an expiry', { archive: expired }],
  ])(
    'are those of the newest head in the store where the status names %s, as after a restore of the cluster',
    async (_case, wish) => {
      gateway = await TestGateway.start({ history });
      history.archived(storedEvents(5));
      history.heads.delete(headOf(2));
      await setUp(wish);
      for (const { metadata } of gateway.caches.conversations.store.list())
        history.stored.set(metadata.uid, headOf(5));
      expect(idsOf(await gateway.get(path('search')))).toHaveLength(5);
      expect((await gateway.get(path('count'))).json).toBe(5);
    },
  );

  it.each<[string, () => Error, string, string | undefined]>([
    [
      'the store does not answer',
      () => new StoreError('timeout', 'late'),
      '503 archive-unavailable',
      '5',
    ],
    ['the store denies it', () => new StoreError('denied', 'no'), '503 archive-unavailable', '5'],
    [
      'an object is damaged',
      () => new ArchiveError('damaged', 'x'),
      '500 archive-damaged',
      undefined,
    ],
    ['an object is gone', () => new ArchiveError('gone', 'x'), '409 archive-empty', undefined],
    ['the reader has a bug', () => new Error('10.1.2.3'), '500 internal', undefined],
  ])('when %s', async (_case, error, code, retryAfter) => {
    gateway = await TestGateway.start({ history });
    await setUp({ archive: history.archived(storedEvents(3)) });
    history.before = () => {
      throw error();
    };
    const download = `/api/v1/app-conversations/${id}/download`;
    const urls = [path('search'), path('count'), byId('e1'), download];
    for (const url of urls) {
      const answer = await gateway.get(url);
      expect(codeOf(answer)).toBe(code);
      expect(answer.headers['retry-after']).toBe(retryAfter);
      expect(answer.text).not.toContain('10.1.2.3');
    }
  });

  it('while the sandbox stops: from the agent, and from the archive once that is gone', async () => {
    gateway = await TestGateway.start({ history });
    agent.answer = answerFromLog(() => storedEvents(5));
    await setUp({ archive: history.archived(storedEvents(3)), stops: true });
    expect(idsOf(await gateway.get(path('search')))).toHaveLength(5);
    expect((await gateway.get(path('count'))).json).toBe(5);
    await agent.stop();
    expect(idsOf(await gateway.get(path('search')))).toHaveLength(3);
    expect((await gateway.get(path('count'))).json).toBe(3);
  });

  it('when the archive hangs: 503 after the deadline, and the read is aborted', async () => {
    gateway = await TestGateway.start({ history, clock: hasty });
    await setUp({ archive: history.archived(storedEvents(3)) });
    const signals: (AbortSignal | undefined)[] = [];
    history.before = (_method, signal) => {
      signals.push(signal);
      return hangs(signal);
    };
    expect(codeOf(await gateway.get(path('search')))).toBe('503 archive-unavailable');
    expect(signals.map((signal) => signal?.aborted)).toEqual([true]);
  });

  it('when the client leaves: the read is aborted, and its place is free again', async () => {
    gateway = await TestGateway.start({
      history,
      pools: { historyReads: { total: 1, perOwner: 1 } },
    });
    await setUp({ archive: history.archived(storedEvents(3)) });
    const signals: (AbortSignal | undefined)[] = [];
    history.before = (_method, signal) => {
      signals.push(signal);
      return hangs(signal);
    };
    const leaving = new AbortController();
    const left = fetch(`${gateway.url}${path('search')}`, {
      headers: { authorization: `Bearer ${gateway.alice}` },
      signal: leaving.signal,
    });
    await eventually('it reads', () => signals.length === 1);
    leaving.abort();
    await expect(left).rejects.toThrow();
    await eventually('it is aborted', () => signals[0]?.aborted === true);
    history.before = () => undefined;
    expect(codeOf(await gateway.get(path('count')))).toBe('200');
  });

  it("has a share of the places: an owner's slow reads delay no other owner's", async () => {
    gateway = await TestGateway.start({
      history,
      clock: hasty,
      pools: {
        historyReads: { total: 2, perOwner: 1, queue: { maxMs: 10, total: 8, perOwner: 8 } },
      },
    });
    await setUp({ archive: history.archived(storedEvents(3)) });
    const ofBob = newUuid(Date.now());
    await gateway.addConversation(ofBob, {
      spec: { owner: 'bob' },
      status: {
        start: { status: 'READY', transitions: [{ status: 'READY', time }] },
        archive: history.archived(storedEvents(2)),
      },
    });
    history.before = (_method, signal) =>
      history.calls.at(-1)?.state.head === headOf(3) ? hangs(signal) : undefined;
    const reads = [1, 2, 3].map(() => gateway.get(path('search')));
    const bobs = await gateway.get(`/api/v1/conversation/${ofBob}/events/count`, {
      key: gateway.bob,
    });
    expect(bobs).toMatchObject({ status: 200, json: 2 });
    const codes = (await Promise.all(reads)).map(codeOf);
    expect(codes).toContain('503 archive-unavailable');
    expect(codes).toContain('429 share-exceeded');
  });

  it('are found by kind and time, in either order', async () => {
    gateway = await TestGateway.start({ history });
    await setUp({ archive: history.archived(storedEvents(6)) });
    const ids = async (query: string) => idsOf(await gateway.get(`${path('search')}?${query}`));
    expect(await ids('sort_order=TIMESTAMP_DESC&limit=2')).toEqual(['e5', 'e4']);
    expect(await ids('kind__eq=ActionEvent')).toEqual(['e1', 'e3', 'e5']);
    expect(
      await ids('timestamp__gte=2026-01-01T02:00:02%2B02:00&timestamp__lt=2026-01-01T00:00:04Z'),
    ).toEqual(['e2', 'e3']);
    expect(await gateway.get(`${path('count')}?kind=ActionEvent`)).toMatchObject({ json: 3 });
    expect(await gateway.get(`${path('search')}?source=user`)).toMatchObject({
      status: 422,
      json: { errors: [{ path: 'query.source' }] },
    });
  });

  it('come from the head of the API server where that of the cache is gone', async () => {
    gateway = await TestGateway.start({ history });
    await setUp({ archive: { head: headOf(2), events: 2, bytes: 1 } });
    await gateway.fallBehind();
    const archive = history.archived(storedEvents(3));
    await gateway.client.mergePatch(
      ...([
        conversations,
        namespace,
        id,
        { status: { archive } },
        { subresource: 'status' },
      ] as const),
    );
    expect(idsOf(await gateway.get(path('search')))).toEqual(['e0', 'e1', 'e2']);
    expect(history.calls.map(({ state }) => state.head)).toEqual([headOf(2), headOf(3)]);
  });

  it('come from the archive where a running agent does not know the conversation', async () => {
    gateway = await TestGateway.start({ history });
    agent.answer = (_request, response) => {
      response.statusCode = 404;
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ detail: 'Conversation not found' }));
    };
    await setUp({ replicas: 1, archive: history.archived(storedEvents(3)) });
    expect(idsOf(await gateway.get(path('search')))).toEqual(['e0', 'e1', 'e2']);
    expect(await gateway.get(path('count'))).toMatchObject({ status: 200, json: 3 });
    expect(await gateway.get(byId('e1'))).toMatchObject({ status: 200, json: [{ id: 'e1' }] });
    await gateway.setStatus(id, { archive: null } as never);
    expect(codeOf(await gateway.get(path('search')))).toBe('409 wrong-state');
    expect(codeOf(await gateway.get(byId('e1')))).toBe('409 wrong-state');
    // The status is that of a backup.
    for (const { metadata } of gateway.caches.conversations.store.list())
      history.stored.set(metadata.uid, headOf(3));
    expect(idsOf(await gateway.get(path('search')))).toEqual(['e0', 'e1', 'e2']);
  });

  it.each([
    ['running', 1 as const],
    ['paused', 0 as const],
  ])('are read by at most 100 ids: %s', async (_case, replicas) => {
    gateway = await TestGateway.start({ history });
    const stored = storedEvents(120);
    const asked: string[] = [];
    const answer = answerFromLog(() => stored);
    agent.answer = (request, response) => {
      asked.push(request.url ?? '');
      answer(request, response);
    };
    await setUp({ replicas, archive: history.archived(stored) });
    const ids = stored.slice(20).map((event) => event.id);
    expect((await gateway.get(byId(...ids))).json).toEqual(stored.slice(20));
    expect(codeOf(await gateway.get(byId(...ids, 'e0')))).toBe('400 too-many-ids');
    expect(codeOf(await gateway.get(byId('x'.repeat(129))))).toBe('422 invalid-request');
    expect(codeOf(await gateway.get(`/api/v1/conversation/${id}/events`))).toBe(
      '422 invalid-request',
    );
    // Names of other paths of the agent, and texts that lead out of the path of events.
    asked.length = 0;
    const strange = ['search', 'count', '.', '..', '../../x', 'a?b=c', 'e1#'];
    const answered = await gateway.get(byId(...strange, 'e1'));
    expect(answered.json).toEqual([...strange.map(() => null), stored[1]]);
    const outside = asked.filter((url) => !/\/events\/[^/?]*$/.test(url));
    expect(outside).toEqual([]);
  });

  it.each<[string, NonNullable<StubAgent['answer']>]>([
    ['another event', (_request, response) => void response.end('{"id":"e7"}')],
    ['no JSON', (_request, response) => void response.end('e1')],
    ['more than 8 MiB', (_request, response) => void response.end(Buffer.alloc(8_388_609, 32))],
  ])('are none where the agent sends %s', async (_case, answer) => {
    gateway = await TestGateway.start({ history });
    agent.answer = answer;
    await setUp({ replicas: 1 });
    expect(codeOf(await gateway.get(byId('e1')))).toMatch(/^503 /);
  });

  it.each([
    ['running', 1 as const],
    ['paused', 0 as const],
  ])('have at most 8 MiB in one answer: %s', async (_case, replicas) => {
    gateway = await TestGateway.start({ history });
    const large = storedEvents(5).map((event) => ({ ...event, text: 'x'.repeat(2_000_000) }));
    agent.answer = answerFromLog(() => large);
    await setUp({ replicas, archive: history.archived(large) });
    const ids = large.map((event) => event.id);
    expect(codeOf(await gateway.get(byId(...ids)))).toBe('413 history-too-large');
    expect(codeOf(await gateway.get(byId(...ids.slice(1))))).toBe('200');
    expect(codeOf(await gateway.get(byId(...ids.map(() => 'e1'))))).toBe('413 history-too-large');
  });

  it.each(['TIMESTAMP', 'TIMESTAMP_DESC'])(
    'come once each to a client that pages through pauses and resumes: %s',
    async (order) => {
      gateway = await TestGateway.start({ history });
      const events = storedEvents(23);
      agent.answer = answerFromLog(() => events);
      await setUp({ replicas: 1, archive: history.archived(events) });
      const ids: string[] = [];
      let next: string | null = null;
      for (const replicas of [1, 0, 0, 1, 1, 0] as const) {
        await switchTo(replicas);
        const from: string = next === null ? '' : `&page_id=${encodeURIComponent(next)}`;
        const query = `limit=4&sort_order=${order}${from}`;
        const answer = await gateway.get(`${path('search')}?${query}`);
        ids.push(...idsOf(answer));
        next = pageOf(answer).next_page_id;
      }
      const all = events.map((event) => event.id);
      expect(ids).toEqual(order === 'TIMESTAMP' ? all : all.toReversed());
      expect(next).toBeNull();
    },
  );

  it('are of their owner alone', async () => {
    gateway = await TestGateway.start({ history });
    await setUp({ archive: history.archived(storedEvents(3)) });
    const download = `/api/v1/app-conversations/${id}/download`;
    for (const url of [path('search'), path('count'), byId('e1'), download])
      expect(codeOf(await gateway.get(url, { key: gateway.bob }))).toBe('404 not-found');
    expect(history.calls).toEqual([]);
  });
});
