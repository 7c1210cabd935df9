import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { newUuid } from '@conversation-operator/base/uuid';
import { createFolderStore } from '@conversation-operator/object-store/folder-store';
import { StoreError } from '@conversation-operator/object-store/object-store';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { createCodec } from '../../../src/archive/codec.ts';
import { extendArchive } from '../../../src/archive/extend.ts';
import { createHistoryReader } from '../../../src/archive/reader.ts';
import { removeArchive } from '../../../src/archive/stored-archives.ts';
import type { TextSearchPage } from '../../../src/gateway/history/text-search.ts';
import type {
  ArchiveStatus,
  ConversationStatus,
} from '../../../src/resources/conversation-status.ts';
import type { ConversationSpec } from '../../../src/resources/conversation.ts';
import { agentLog, eventJson, eventOf } from '../../support/archive/agent-log.ts';
import { eventually } from '../../support/eventually.ts';
import { TestGateway, namespace, type Answer } from '../../support/gateway/test-gateway.ts';

const time = '2026-01-01T00:00:00Z';
const keys = new SandboxKeys([Buffer.alloc(32, 7)]);
const { signal } = new AbortController();

/** A clock that advances by a second with each reading. */
const fast = (): Clock => {
  let ms = 0;
  return { ...systemClock, monotonic: () => (ms += 1000) };
};

describe.each([false, true])('a search for a text, in archives encrypted: %s', (encrypt) => {
  const codec = createCodec({ keys, encrypt });
  let directory: string;
  let store: ReturnType<typeof createFolderStore>;
  let gateway: TestGateway;
  let failing: StoreError | undefined;
  let reads: (() => Promise<void>) | undefined;

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'search-'));
    store = createFolderStore({ directory });
    failing = undefined;
    reads = undefined;
    const reader = createHistoryReader({
      codec,
      store: {
        ...store,
        get: async (...call) => {
          await reads?.();
          if (failing !== undefined) throw failing;
          return store.get(...call);
        },
      },
    });
    gateway = await TestGateway.start({ history: reader });
  });
  afterEach(async () => {
    await gateway.stop();
    await store.close();
    rmSync(directory, { recursive: true });
  });

  let count = 0;
  /** A conversation with these texts in its archive; later ones are newer. */
  async function add(
    texts: readonly string[],
    more: {
      readonly spec?: Partial<ConversationSpec>;
      readonly status?: ConversationStatus;
      readonly reason?: string;
    } = {},
  ): Promise<string> {
    const id = newUuid(Date.now() + count++);
    const created = await gateway.addConversation(id, {
      spec: { title: `T${count}`, ...more.spec },
    });
    const { uid } = created.metadata;
    const log = agentLog(
      texts.map((text, index) => eventOf(eventJson(`${id}-${index}`, { text }))),
    );
    const { head } = await extendArchive({ namespace, uid }, undefined, {
      store,
      codec,
      source: log.source,
      signal,
      installation: 'here',
      maxBytes: Infinity,
      maxEvents: Infinity,
    });
    const archive: ArchiveStatus = { events: texts.length, bytes: 1, ...(head && { head }) };
    const condition = { type: 'Archived', status: 'True' as const, message: '' };
    await gateway.setStatus(id, {
      start: { status: 'READY', transitions: [{ status: 'READY', time }] },
      archive,
      conditions: [{ ...condition, reason: more.reason ?? 'Complete', lastTransitionTime: time }],
      ...more.status,
    });
    return id;
  }
  const path = (q: string, more = '') => `/api/v1/search?q=${encodeURIComponent(q)}${more}`;
  const pageOf = (answer: Answer): TextSearchPage => {
    expect(answer.status).toBe(200);
    return answer.json as TextSearchPage;
  };
  const search = async (q: string, more = '', key = gateway.alice) =>
    pageOf(await gateway.get(path(q, more), { key }));
  const snippets = async (q: string) => (await search(q)).items.map(({ snippet }) => snippet);

  it('finds records and events, the newest first, and says where', async () => {
    const old = await add(['Nothing.', 'A Retry helps.', 'retry'], {
      spec: {
        title: 'Old',
        repository: { name: 'acme/retry', branch: 'main', provider: 'github' },
      },
    });
    await add(['nothing at all']);
    const young = await add(['retry now'], { spec: { title: 'A retry' } });
    const branch = await add([], {
      spec: { repository: { name: 'acme/shop', branch: 'fix/retry', provider: 'github' } },
    });
    const page = await search('retry');
    expect(page.items).toMatchObject([
      { conversation_id: branch, where: 'branch', event_id: null, snippet: 'fix/retry' },
      { conversation_id: young, where: 'title', kind: null, timestamp: null, title: 'A retry' },
      {
        conversation_id: young,
        where: 'event',
        event_id: `${young}-0`,
        snippet: 'retry now',
        kind: 'MessageEvent',
        timestamp: '2026-01-01T00:00:00',
        title: 'A retry',
      },
      { conversation_id: old, where: 'repository', snippet: 'acme/retry' },
      { conversation_id: old, event_id: `${old}-2` },
      { conversation_id: old, event_id: `${old}-1`, snippet: 'A Retry helps.' },
    ]);
    expect(page).toMatchObject({
      next_page_id: null,
      searched: { conversations: 4, of: 4, incomplete: 0 },
    });
  });

  it('finds each place once in pages of any size, and also with pages that end by their time', async () => {
    for (let index = 0; index < 5; index++)
      await add(
        [...Array.from({ length: 150 }, (_, event) => `text ${event}`), 'needle', 'needle'],
        { spec: { title: index % 2 === 0 ? 'A needle' : 'Hay' } },
      );
    const whole = (await search('needle')).items;
    expect(whole).toHaveLength(13);
    const hasty = await gateway.replica({
      clock: fast(),
      history: createHistoryReader({ store, codec }),
    });
    try {
      for (const [from, limit] of [
        ...[1, 2, 3, 12, 13, 14].map((each) => [gateway, each] as const),
        [hasty, 100] as const,
      ]) {
        const found: unknown[] = [];
        let [pages, pageId, searched]: [number, string | null, number] = [0, '', 0];
        while (pageId !== null && pages < 40) {
          const more = `&limit=${limit}${pageId === '' ? '' : `&page_id=${pageId}`}`;
          const page = pageOf(await from.get(path('needle', more)));
          expect(page.items.length).toBeLessThanOrEqual(limit);
          expect(page.searched.conversations).toBeGreaterThanOrEqual(searched);
          searched = page.searched.conversations;
          found.push(...page.items);
          pageId = page.next_page_id;
          pages++;
        }
        expect(found).toEqual(whole);
        expect(searched).toBe(5);
        expect(pages).toBeGreaterThanOrEqual(from === hasty ? 10 : whole.length / limit);
      }
    } finally {
      await hasty.stop();
    }
  });

  it.each<[string, string, string]>([
    ['a pattern', '.*(a|b)+$[', 'x .*(a|b)+$[ y'],
    ['quotes and backslashes', '"C:\\n"', 'cd "C:\\n"'],
    ['control characters', 'a\u0001\tb', 'a b'],
    ['an emoji', '😀 ok', '😀 OK'],
    ['letters of any case', 'ÜBER straße', 'über STRASSE, Über Straße'],
    ['200 characters', 'ab'.repeat(100), `${'AB'.repeat(100)} end`],
    ['markup', '<script>alert(1)</script>', '<script>alert(1)</script>'],
    ['a path', '/workspace/src/a.ts', 'cat /workspace/src/a.ts'],
  ])('takes %s as a text', async (_case, q, text) => {
    const id = await add(['other', text]);
    const { items } = await search(q);
    expect(items.map(({ event_id }) => event_id)).toEqual([`${id}-1`]);
  });

  it.each<[string, string]>([
    ['nothing', '?q='],
    ['one character', '?q=a'],
    ['white space', '?q=%20%20%20a'],
    ['201 characters', `?q=${'a'.repeat(201)}`],
    ['no text', '?'],
    ['a page of another text', '?q=retry&page_id=PAGE'],
    ['a text that is no page', '?q=retry&page_id=abc'],
  ])('refuses %s', async (_case, query) => {
    await add(['needle']);
    await add(['needle']);
    const { next_page_id: page } = await search('needle', '&limit=1');
    expect(page).not.toBeNull();
    const answer = await gateway.get(`/api/v1/search${query.replace('PAGE', String(page))}`);
    expect(answer).toMatchObject({ status: 422, json: { code: 'invalid-request' } });
  });

  it('refuses NUL, as every request does', async () => {
    expect(await gateway.get(path('a\u0000b'))).toMatchObject({ status: 400 });
  });

  it('has no ids and names of fields', async () => {
    await add(['text']);
    expect(await snippets('MessageEvent')).toEqual([]);
    expect(await snippets('timestamp')).toEqual([]);
  });

  it("never finds another owner's", async () => {
    await add(['secret plan'], { spec: { owner: 'bob', title: 'A secret plan' } });
    const page = await search('secret plan');
    expect(page).toMatchObject({ items: [], searched: { conversations: 0, of: 0 } });
    expect((await search('secret plan', '', gateway.bob)).items).toHaveLength(2);
    // A page of hers leads to none of his.
    const { next_page_id: page2 } = await search('secret plan', '&limit=1', gateway.bob);
    expect((await search('secret plan', `&page_id=${String(page2)}`)).items).toEqual([]);
  });

  it('finds nothing of what was deleted or has expired, and counts what it could not search', async () => {
    const deleted = await add(['needle deleted']);
    await gateway.send('DELETE', `/api/v1/app-conversations/${deleted}`);
    const gone = await add(['needle gone']);
    const { uid } = gateway.caches.conversations.store.get(namespace, gone)?.metadata ?? {
      uid: '',
    };
    await removeArchive(store, { namespace, uid });
    await add(['needle expired'], {
      status: { archive: { events: 1, bytes: 0, expiredTime: time } },
      reason: 'Expired',
    });
    await add(['needle that runs'], { reason: 'Following' });
    await add([], { status: { start: { status: 'ERROR', transitions: [] } }, reason: 'Complete' });
    await eventually('the deletion shows', async () => (await search('needle')).searched.of === 4);
    const page = await search('needle');
    expect(page.items.map(({ snippet }) => snippet)).toEqual(['needle that runs']);
    expect(page.searched).toEqual({ conversations: 4, of: 4, incomplete: 3 });
  });

  it('says that the store is away, rather than that there is nothing', async () => {
    await add(['needle']);
    failing = new StoreError('unavailable', 'away');
    expect(await gateway.get(path('needle'))).toMatchObject({
      status: 503,
      json: { code: 'archive-unavailable' },
    });
  });

  it('is one at a time for each owner, and ends with its client', async () => {
    await gateway.stop();
    let waiting = 0;
    let ended = 0;
    const reader = createHistoryReader({ store, codec });
    gateway = await TestGateway.start({
      pools: { textSearches: { queue: { maxMs: 50, total: 8, perOwner: 2 } } },
      history: {
        ...reader,
        find: async function* (_state, _query, _before, left) {
          waiting++;
          await new Promise((_resolve, reject) =>
            left?.addEventListener('abort', () => {
              ended++;
              reject(left.reason as Error);
            }),
          );
          yield { from: 0, found: [] };
        },
      },
    });
    await add(['needle']);
    await add(['needle'], { spec: { owner: 'bob' } });
    const leaving = new AbortController();
    const url = `http://127.0.0.1:${gateway.port}${path('needle')}`;
    const first = fetch(url, {
      headers: { authorization: `Bearer ${gateway.alice}` },
      signal: leaving.signal,
    });
    const left = expect(first).rejects.toThrow();
    await eventually('the search has begun', () => Promise.resolve(waiting === 1));
    const second = await gateway.get(path('needle'));
    expect(second).toMatchObject({ status: 429, json: { code: 'share-exceeded' } });
    expect((second.json as { detail: string }).detail).toContain('searches of yours');
    leaving.abort();
    await left;
    await eventually('the search has ended', () => Promise.resolve(ended === 1));
  });

  it('searches records alone without an archive', async () => {
    await gateway.stop();
    gateway = await TestGateway.start();
    await add(['needle'], { spec: { title: 'A needle' } });
    const page = await search('needle');
    expect(page.items).toMatchObject([{ where: 'title', snippet: 'A needle' }]);
    expect(page.searched).toEqual({ conversations: 1, of: 1, incomplete: 1 });
  });
});
