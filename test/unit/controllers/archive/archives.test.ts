import { Readable } from 'node:stream';
import { noAgentCredentials } from '../../../../src/agent/credentials.ts';
import type { AgentConversation } from '../../../../src/agent/agent.ts';
import { AgentError } from '../../../../src/agent/errors.ts';
import type { EventQuery } from '../../../../src/agent/events.ts';
import { SandboxKeys } from '../../../../src/agent/keys.ts';
import { type ArchiveAddress, hashOf, keyOf, nameOf } from '../../../../src/archive/layout.ts';
import { createCodec } from '../../../../src/archive/codec.ts';
import { measuredStore } from '../../../../src/archive/measured-store.ts';
import { installationName } from '../../../../src/archive/installation.ts';
import { emptyManifest, packHead } from '../../../../src/archive/manifest.ts';
import { createHistoryReader } from '../../../../src/archive/reader.ts';
import { createArchives } from '../../../../src/controllers/archive/archives.ts';
import { conversationIndexers, sandboxIndexers } from '../../../../src/controllers/caches.ts';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../../../src/resources/cached-conversation.ts';
import { findCondition } from '../../../../src/resources/conditions.ts';
import type { ConversationQuota } from '../../../../src/resources/conversation-quota.ts';
import type { ConversationStatus } from '../../../../src/resources/conversation-status.ts';
import { conversations } from '../../../../src/resources/conversation.ts';
import type { Sandbox } from '../../../../src/resources/sandbox.ts';
import {
  sandboxTemplates,
  type SandboxTemplate,
} from '../../../../src/resources/sandbox-template.ts';
import { namespaces } from '@conversation-operator/kube/core';
import { IndexedStore } from '@conversation-operator/kube/store';
import { StoreError } from '@conversation-operator/object-store/object-store';
import { eventJson } from '../../../support/archive/agent-log.ts';
import { memoryStore } from '../../../support/archive/memory-store.ts';
import {
  aConversation,
  aQuota,
  aSandbox,
  aTemplate,
  admitted,
  condition,
  noonMs,
} from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { recordingLogger } from '../../../support/recording-logger.ts';
import { sceneKeys } from '../../../support/sandbox-scene.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const sandbox: Sandbox = aSandbox({
  status: {
    conditions: [admitted, condition('Ready', 'True', 'Running')],
    observedGeneration: 1,
    replicas: 1,
    podIP: '127.70.0.1',
    agentPort: 8000,
    masterKeyId: sceneKeys.currentKeyId,
  },
});
const started: ConversationStatus = {
  start: { status: 'READY', transitions: [] },
  sandboxName: 'sbx-1',
  sandboxUID: sandbox.metadata.uid,
  sandboxStatus: 'RUNNING',
  executionStatus: 'finished',
  workingDir: '/workspace/project',
};
const { signal } = new AbortController();

const aNamespace = (uid: string) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: 'default', uid, resourceVersion: '1', generation: 1, creationTimestamp: '' },
});

/** The archives of one operator, its store, and the agent of its conversation. */
function scene({
  template = aTemplate(),
  quota,
  memory = memoryStore(),
  uid,
  namespaceUid = 'namespace-1',
}: {
  readonly template?: SandboxTemplate;
  readonly quota?: ConversationQuota;
  readonly memory?: ReturnType<typeof memoryStore>;
  readonly uid?: string;
  readonly namespaceUid?: string;
} = {}) {
  const client = new FakeKubeClient();
  const clock = new VirtualClock(noonMs);
  const metrics = createMetrics();
  const { logger, lines } = recordingLogger();
  const stores = {
    conversations: new IndexedStore<CachedConversation>(conversationIndexers),
    sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
    templates: new IndexedStore<SandboxTemplate>(),
    quotas: new IndexedStore<ConversationQuota>(),
  };
  const base = aConversation({ status: started });
  const known = uid === undefined ? base : { ...base, metadata: { ...base.metadata, uid } };
  client.put(conversations, known);
  client.put(namespaces, aNamespace(namespaceUid));
  stores.sandboxes.set(sandbox);
  stores.templates.set(client.put(sandboxTemplates, template));
  if (quota !== undefined) stores.quotas.set(quota);
  const agent: { events: string[]; error?: AgentError } = { events: [] };
  const faults: { error?: StoreError | undefined } = {};
  const failing =
    <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
    (...args: A): Promise<R> =>
      faults.error === undefined ? call(...args) : Promise.reject(faults.error);
  const store = measuredStore(
    {
      ...memory.store,
      put: failing(memory.store.put.bind(memory.store)),
      get: failing(memory.store.get.bind(memory.store)),
    },
    { clock, metrics },
  );
  const codec = createCodec({ keys: sceneKeys, encrypt: false });
  const search = (_endpoint: unknown, _id: string, query: EventQuery) => {
    if (agent.error !== undefined) return Promise.reject(agent.error);
    const idOf = (event: string) => (JSON.parse(event) as { id: string }).id;
    const isDescending = query['sort_order'] === 'TIMESTAMP_DESC';
    const log = isDescending ? agent.events.toReversed() : agent.events;
    const start = Math.max(
      0,
      log.findIndex((event) => idOf(event) === query['page_id']),
    );
    const items = log.slice(start, start + Number(query['limit']));
    const next = log[start + items.length];
    const page = `{"items":[${items.join()}],"next_page_id":${next === undefined ? 'null' : JSON.stringify(idOf(next))}}`;
    return Promise.resolve(Readable.from([Buffer.from(page)]));
  };
  const files = {
    files: () => Promise.resolve({ names: ['README.md'], isTruncated: false }),
    changes: () => Promise.resolve([{ status: 'UPDATED', path: 'README.md' } as const]),
    diff: () => Promise.resolve({ original: 'old', modified: `new ${keyOfSandbox}` }),
  };
  const enqueued: number[] = [];
  const reported: string[] = [];
  const archives = createArchives({
    client,
    clock,
    metrics,
    logger,
    stores,
    keys: sceneKeys,
    random: () => 0,
    archive: { store, codec, events: { search }, files },
    credentials: noAgentCredentials,
    enqueue: (_request, delayMs = 0) => void enqueued.push(delayMs),
    events: { record: (_object, { reason }) => void reported.push(reason) },
  });
  const refresh = async () => {
    const stored = await client.get(conversations, 'default', known.metadata.name);
    const cached = cachedConversation(stored);
    stores.conversations.set(cached);
    archives.ownerBytes.observe(cached);
    return cached;
  };
  const reconcileOnce = async () => {
    await refresh();
    const { namespace, name } = known.metadata;
    const result = await clock.run(archives.reconciler.reconcile({ namespace, name }, signal));
    const { status } = await refresh();
    return { result, status, reason: findCondition(status?.conditions, 'Archived')?.reason };
  };
  let isFirst = true;
  /** The first read of an archive that begins waits for an interval. */
  const reconcile = async () => {
    if (isFirst) {
      isFirst = false;
      await reconcileOnce();
      await clock.advance(28_000);
    }
    return reconcileOnce();
  };
  const reader = createHistoryReader({ store: memory.store, codec });
  return {
    client,
    clock,
    archives,
    agent,
    faults,
    memory,
    lines,
    enqueued,
    metrics,
    stores,
    reconcile,
    reconcileOnce,
    refresh,
    reader,
    known,
    reported,
  };
}

const keyOfSandbox = sceneKeys.sessionKey(sandbox.metadata.uid, sceneKeys.currentKeyId);
const events = (number: number) =>
  Array.from({ length: number }, (_, index) => eventJson(`e${index}`));
const endpoint = { baseUrl: 'http://127.70.0.1:8000', sessionKey: keyOfSandbox };

describe('an agent that runs', () => {
  it('is read every 28 s for as long as it has something new', async () => {
    const { agent, clock, reconcile, memory } = scene();
    agent.events = events(250);
    const first = await reconcile();
    expect(first.result).toEqual({ requeueAfterMs: 28_000 });
    expect(first.status?.archive).toMatchObject({
      events: 250,
      time: expect.any(String) as string,
    });
    expect(first.reason).toBe('Following');
    const [head] = memory.objects.keys();
    expect((await reconcile()).result).toEqual({ requeueAfterMs: 28_000 });
    await clock.advance(28_000);
    agent.events = events(251);
    expect((await reconcile()).status?.archive?.events).toBe(251);
    expect([...memory.objects.keys()]).not.toContain(head);
    await clock.advance(28_000);
    expect((await reconcile()).result).toBeUndefined();
  });

  it('is not read right after a start, whose status would be written for hardly an event', async () => {
    const { agent, archives, clock, client, enqueued, known, memory, reconcileOnce } = scene();
    agent.events = events(1);
    const { metadata } = await client.get(conversations, 'default', known.metadata.name);
    expect((await reconcileOnce()).result).toEqual({ requeueAfterMs: 28_000 });
    archives.reconciler.observe(known, {
      updatedAt: '2026-01-01T00:00:00Z',
      reportedStatus: 'running',
    } as AgentConversation);
    expect(enqueued).toEqual([28_000]);
    const later = await client.get(conversations, 'default', known.metadata.name);
    expect(later.metadata.resourceVersion).toBe(metadata.resourceVersion);
    expect(memory.calls).toMatchObject({ put: 0, list: 0 });
    await clock.advance(28_000);
    expect((await reconcileOnce()).status?.archive?.events).toBe(1);
  });

  it('is read again when it reports something new', async () => {
    const { archives, known, enqueued, reconcile } = scene();
    const report = { updatedAt: '2026-01-01T00:00:00Z', reportedStatus: 'idle' };
    const observe = (state: Partial<AgentConversation>) =>
      archives.reconciler.observe(known, { ...report, ...state } as AgentConversation);
    observe({});
    await reconcile();
    observe({});
    observe({ updatedAt: '2026-01-01T00:00:01Z' });
    expect(enqueued).toEqual([28_000, 28_000]);
  });

  it('is not read where its template says so', async () => {
    const template = aTemplate({ archive: { enabled: false, maxBytes: 1 } });
    const { agent, reconcile, memory } = scene({ template });
    agent.events = events(3);
    expect((await reconcile()).result).toBeUndefined();
    expect(memory.calls.put).toBe(0);
  });

  it('is read no further beyond the limits, which the condition names', async () => {
    const small = scene({ template: aTemplate({ archive: { enabled: true, maxBytes: 100 } }) });
    small.agent.events = events(5_000);
    expect((await small.reconcile()).reason).toBe('LimitReached');
    const quota = aQuota('q', { scope: 'Owner', maxArchivedBytes: 100 });
    const owned = scene({ quota });
    owned.agent.events = events(5_000);
    const { reason, status } = await owned.reconcile();
    expect(reason).toBe('OwnerLimitReached');
    expect(status?.archive?.events).toBeLessThan(5_000);
  });
});

describe('a store that fails', () => {
  it.each([
    ['denied', 'StoreDenied'],
    ['unavailable', 'StoreUnavailable'],
  ] as const)('%s is shown once, and tried again', async (code, reason) => {
    const { agent, faults, reconcile, lines, metrics, client, known } = scene();
    agent.events = events(3);
    faults.error = new StoreError(code, 'the store fails');
    const first = await reconcile();
    expect(first.reason).toBe(reason);
    expect(first.result).toEqual({ requeueAfterMs: 5_000 });
    const { metadata } = await client.get(conversations, 'default', known.metadata.name);
    expect((await reconcile()).result).toEqual({ requeueAfterMs: 10_000 });
    const later = await client.get(conversations, 'default', known.metadata.name);
    expect(later.metadata.resourceVersion).toBe(metadata.resourceVersion);
    expect(lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
    expect((await metrics.archiveFailures.get()).values).toMatchObject([
      { labels: { reason }, value: 2 },
    ]);
    faults.error = undefined;
    expect(await reconcile()).toMatchObject({
      reason: 'Following',
      status: { archive: { events: 3 } },
    });
  });

  it('delays a pause for a second at most once it has failed', async () => {
    const { agent, archives, clock, faults, reconcile, refresh } = scene();
    agent.events = events(3);
    faults.error = new StoreError('timeout', 'late');
    await reconcile();
    const startedAt = clock.monotonic();
    await clock.run(archives.seal.seal(sandbox, endpoint, { maxMs: 15_000, isLast: true, signal }));
    expect(clock.monotonic() - startedAt).toBeLessThanOrEqual(1_000);
    expect(findCondition((await refresh()).status?.conditions, 'Archived')?.reason).toBe(
      'StoreUnavailable',
    );
  });
});

describe('a status of a backup of the cluster', () => {
  it.each([
    ['with a head that is gone, and new events', 251],
    ['with a head that is gone', 250],
  ])('%s: the archive continues its newest head in the store', async (_case, now) => {
    const { agent, client, clock, known, reconcile, reader } = scene();
    agent.events = events(200);
    const { status: backup } = await reconcile();
    await clock.advance(28_000);
    agent.events = events(250);
    await reconcile();
    const stored = await client.get(conversations, 'default', known.metadata.name);
    await client.updateStatus(conversations, { ...stored, ...(backup && { status: backup }) });
    await clock.advance(28_000);
    // The volume was restored as well, and has lost events that the archive has.
    agent.events = [...events(220), ...events(now).slice(250)];
    const { status, reason } = await reconcile();
    expect([status?.archive?.events, reason]).toEqual([now, 'Following']);
    const state = {
      namespace: 'default',
      uid: known.metadata.uid,
      head: status?.archive?.head ?? '',
    };
    expect(await reader.count(state, {})).toBe(now);
  });

  it('does not expire by the time of the backup', async () => {
    const template = aTemplate({ archive: { enabled: true, maxBytes: 10_000, retention: '1h' } });
    const { agent, client, clock, known, reconcile, memory, stores } = scene({ template });
    agent.events = events(3);
    const { status: backup } = await reconcile();
    await clock.advance(3_000_000);
    agent.events = events(5);
    const { status } = await reconcile();
    const stored = await client.get(conversations, 'default', known.metadata.name);
    await client.updateStatus(conversations, { ...stored, ...(backup && { status: backup }) });
    stores.sandboxes.delete('default', 'sbx-1');
    for (let left = 3_000_000; left > 0; left -= 20_000) {
      await reconcile();
      await clock.advance(20_000);
    }
    const { archive } = (await reconcile()).status ?? {};
    expect(archive).toMatchObject({ head: status?.archive?.head, events: 5 });
    expect(memory.objects.size).toBe(1);
  });

  it('from before a new archive does not take it for what an expiry has left', async () => {
    const { agent, client, known, reconcile, memory, stores, clock } = scene();
    const expired = { events: 0, bytes: 0, expiredTime: '2026-01-01T00:00:00Z' };
    const store = async (archive: object) => {
      const stored = await client.get(conversations, 'default', known.metadata.name);
      const status = { ...started, ...stored.status, archive };
      await client.updateStatus(conversations, { ...stored, status } as typeof stored);
    };
    await store(expired);
    agent.events = events(5);
    const { status } = await reconcile();
    await store(expired);
    stores.sandboxes.delete('default', 'sbx-1');
    await clock.advance(28_000);
    expect((await reconcile()).status?.archive).toMatchObject({
      head: status?.archive?.head,
      events: 5,
      expiredTime: expired.expiredTime,
    });
    expect(memory.objects.size).toBe(1);
  });

  it('without a head: the archive continues its newest head in the store', async () => {
    const { agent, client, clock, known, reconcile } = scene();
    agent.events = events(50);
    const { status } = await reconcile();
    const stored = await client.get(conversations, 'default', known.metadata.name);
    await client.updateStatus(conversations, { ...stored, status: started });
    await clock.advance(28_000);
    agent.events = events(20);
    expect((await reconcile()).status?.archive).toMatchObject({
      head: status?.archive?.head,
      events: 50,
    });
  });
});

describe('a newest head that can not be read', () => {
  const otherKeys = new SandboxKeys([Buffer.alloc(32, 9)]);
  const time = '2026-01-01T00:00:00Z';
  const expired = { events: 0, bytes: 0, expiredTime: time };
  const gone = { head: nameOf(1, hashOf('gone')), events: 1, bytes: 1, time };
  const sealedUnderAnotherKey = (address: ArchiveAddress): readonly [string, Buffer] => {
    const codec = createCodec({ keys: otherKeys, encrypt: true });
    const segment = { start: 0, events: 9, hash: hashOf('events'), frames: [], idBytes: 0 };
    const manifest = { ...emptyManifest(address), segments: [segment] };
    const { name, body } = packHead(codec, address, manifest, Buffer.alloc(0));
    return [keyOf(address, 'h', name), body];
  };
  const corrupt = (address: ArchiveAddress): readonly [string, Buffer] => [
    keyOf(address, 'h', nameOf(9, hashOf('events'))),
    Buffer.from('x'),
  ];

  it.each<[string, typeof corrupt, object, boolean, StoreError | undefined]>([
    ['is sealed under an unknown key, at rest', sealedUnderAnotherKey, expired, false, undefined],
    ['is corrupt, at rest', corrupt, expired, false, undefined],
    [
      'is corrupt in place of the named one, at rest',
      corrupt,
      { ...expired, ...gone },
      false,
      undefined,
    ],
    ['is not answered, at rest', corrupt, expired, false, new StoreError('unavailable', 'no')],
    ['is sealed under an unknown key', sealedUnderAnotherKey, expired, true, undefined],
    ['is corrupt', corrupt, {}, true, undefined],
    ['is corrupt in place of the named one', corrupt, gone, true, undefined],
  ])('%s: nothing is deleted or begun anew', async (_case, head, archive, isRunning, error) => {
    const template = aTemplate({ archive: { enabled: true, maxBytes: 10_000, retention: '1m' } });
    const { agent, client, clock, faults, known, memory, reconcile, stores } = scene({ template });
    const address = { namespace: 'default', uid: known.metadata.uid };
    memory.objects.set(...head(address));
    memory.objects.set(keyOf(address, 's', nameOf(0, hashOf('events'))), Buffer.from('events'));
    const before = [...memory.objects.keys()];
    const stored = await client.get(conversations, 'default', known.metadata.name);
    const status = { ...started, ...('events' in archive ? { archive } : {}) };
    await client.updateStatus(conversations, { ...stored, status } as typeof stored);
    agent.events = events(3);
    faults.error = error;
    if (!isRunning) stores.sandboxes.delete('default', 'sbx-1');
    for (let checks = 0; checks < 9; checks++) {
      const { result, status: shown, reason } = await reconcile();
      expect([...memory.objects.keys()]).toEqual(before);
      expect(shown?.archive).toEqual('events' in archive ? archive : undefined);
      if (checks > 6 && error === undefined) expect(reason).toBe('ArchiveDamaged');
      expect(result).toEqual({ requeueAfterMs: expect.any(Number) as number });
      await clock.advance(20_000);
    }
  });
});

describe('a pause', () => {
  it('archives everything, and the files without secrets', async () => {
    const { agent, archives, clock, memory, reader, reconcile, refresh } = scene();
    agent.events = events(3);
    await reconcile();
    const { metadata: known } = await refresh();
    const left = keyOf(known, 'h', nameOf(1, hashOf('left')));
    memory.objects.set(left, Buffer.from('left by a process that has ended'));
    agent.events = [...events(3), eventJson('last', { text: keyOfSandbox })];
    await clock.run(archives.seal.seal(sandbox, endpoint, { maxMs: 15_000, isLast: true, signal }));
    const { metadata, status } = await refresh();
    expect(findCondition(status?.conditions, 'Archived')).toMatchObject({
      status: 'True',
      reason: 'Complete',
    });
    const { head = '', files } = status?.archive ?? {};
    const state = { namespace: 'default', uid: metadata.uid, head, files };
    expect(await reader.count(state, {})).toBe(4);
    const snapshot = await reader.files(state);
    expect(snapshot).toMatchObject({
      workingDir: '/workspace/project',
      files: ['README.md'],
      diffs: { 'README.md': { original: 'old', modified: 'new <secret-hidden>' } },
    });
    const page = await reader.search(state, { descending: true, limit: 1 });
    expect(page.events[0]?.json.toString()).toContain('<secret-hidden>');
    expect([...memory.objects.keys()]).toHaveLength(2);
  });

  it('is complete where the answer to the write before was lost, and the cache is behind', async () => {
    const { agent, archives, client, clock, refresh, known } = scene();
    agent.events = events(3);
    const cached = await refresh();
    const update = client.updateStatus.bind(client);
    let isLost = false;
    Object.assign(client, {
      updateStatus: async (...args: Parameters<typeof update>) => {
        const answer = await update(...args);
        if (isLost) return answer;
        isLost = true;
        throw new Error('the answer is lost');
      },
    });
    const seal = () =>
      clock.run(archives.seal.seal(sandbox, endpoint, { maxMs: 15_000, isLast: true, signal }));
    await expect(seal()).rejects.toThrow('lost');
    const stored = await client.get(conversations, 'default', known.metadata.name);
    expect(stored.metadata.resourceVersion).not.toBe(cached.metadata.resourceVersion);
    await seal();
    const { status } = await refresh();
    expect(findCondition(status?.conditions, 'Archived')?.reason).toBe('Complete');
  });

  it('is incomplete where the agent does not answer, and says so', async () => {
    const { agent, archives, clock, refresh } = scene();
    await refresh();
    agent.error = new AgentError('unreachable', 'gone');
    await clock.run(archives.seal.seal(sandbox, endpoint, { maxMs: 15_000, isLast: true, signal }));
    const { status } = await refresh();
    expect(findCondition(status?.conditions, 'Archived')?.reason).toBe('Incomplete');
  });
});

describe('deletion', () => {
  it('removes the archive of a deleted conversation, also after a failure', async () => {
    const { agent, archives, client, faults, memory, reconcile, stores, known, clock } = scene();
    agent.events = events(3);
    await reconcile();
    expect(memory.objects.size).toBe(1);
    const { namespace, name } = known.metadata;
    stores.conversations.delete(namespace, name);
    archives.reconciler.forget(known, 'observed');
    await client.delete(conversations, namespace, name);
    faults.error = undefined;
    await clock.run(archives.reconciler.reconcile({ namespace, name }, signal));
    expect(memory.objects.size).toBe(0);
  });

  it('removes the archives of all deleted conversations of a name', async () => {
    const { archives, memory, stores, known, clock } = scene();
    const { namespace, name } = known.metadata;
    stores.conversations.delete(namespace, name);
    for (const uid of ['first', 'second']) {
      const key = keyOf({ namespace, uid }, 's', nameOf(0, hashOf('events')));
      memory.objects.set(key, Buffer.from('events'));
      archives.reconciler.forget({ ...known, metadata: { ...known.metadata, uid } }, 'observed');
    }
    await clock.run(archives.reconciler.reconcile({ namespace, name }, signal));
    expect([...memory.objects.keys()]).toEqual([]);
  });

  it('is left to the sweep where a list lacks the conversation, as after a restore of the cluster', async () => {
    const { agent, archives, memory, reconcile, stores, known, clock } = scene();
    agent.events = events(3);
    await reconcile();
    const { namespace, name } = known.metadata;
    stores.conversations.delete(namespace, name);
    archives.reconciler.forget(known, 'assumed');
    await clock.run(archives.reconciler.reconcile({ namespace, name }, signal));
    expect(memory.objects.size).toBe(1);
  });

  it('does not follow the retention where the clock is wrong at several moments, with a check or without one in between', async () => {
    const template = aTemplate({ archive: { enabled: true, maxBytes: 10_000, retention: '1h' } });
    const { agent, clock, memory, reconcile, stores } = scene({ template });
    agent.events = events(3);
    await reconcile();
    stores.sandboxes.delete('default', 'sbx-1');
    const check = async () => (await reconcile()).result;
    const whileWrong = async () => {
      clock.jumpWallClock(86_400_000);
      expect(await check()).toEqual({ requeueAfterMs: 20_000 });
      clock.jumpWallClock(-86_400_000);
    };
    for (const [restMs, checks] of [
      [50_000, 1],
      [50_000, 1],
      [50_000, 1],
      [500_000, 0],
      [500_000, 0],
    ] as const) {
      await whileWrong();
      if (checks > 0) expect(await check()).not.toEqual({ requeueAfterMs: 20_000 });
      await clock.advance(restMs);
    }
    expect(memory.objects.size).toBe(1);
  });

  it('of an expired archive leaves what a new archive has stored meanwhile', async () => {
    const template = aTemplate({ archive: { enabled: true, maxBytes: 10_000, retention: '1h' } });
    const { agent, client, clock, known, memory, reconcile, stores } = scene({ template });
    agent.events = events(3);
    await reconcile();
    stores.sandboxes.delete('default', 'sbx-1');
    await clock.advance(3_600_000);
    const address = { namespace: 'default', uid: known.metadata.uid };
    const fresh = keyOf(address, 's', nameOf(0, hashOf('fresh')));
    const update = client.updateStatus.bind(client);
    Object.assign(client, {
      updateStatus: (...args: Parameters<typeof update>) => {
        memory.objects.set(fresh, Buffer.from('fresh'));
        return update(...args);
      },
    });
    for (let checks = 0; checks < 7; checks++) {
      await reconcile();
      await clock.advance(20_000);
    }
    expect([...memory.objects.keys()]).toEqual([fresh]);
  });

  it('follows the retention, and a resumed conversation gets a new archive', async () => {
    const template = aTemplate({ archive: { enabled: true, maxBytes: 10_000, retention: '1h' } });
    const { agent, client, clock, memory, reconcile, stores, known } = scene({ template });
    agent.events = events(3);
    const { status } = await reconcile();
    const { head } = status?.archive ?? {};
    stores.sandboxes.delete('default', 'sbx-1');
    // A quota for another owner, or of another namespace, shortens no retention.
    stores.quotas.set(aQuota('bob', { owner: 'bob', archiveRetention: '1m' }));
    const quota = aQuota('elsewhere', { archiveRetention: '1m' });
    stores.quotas.set({ ...quota, metadata: { ...quota.metadata, namespace: 'elsewhere' } });
    expect((await reconcile()).result).toEqual({ requeueAfterMs: 3_600_000 });
    await clock.advance(3_600_000);
    for (let checks = 0; checks < 6; checks++) {
      expect((await reconcile()).result).toEqual({ requeueAfterMs: 20_000 });
      await clock.advance(20_000);
    }
    const expired = await reconcile();
    expect(expired.reason).toBe('Expired');
    expect(expired.status?.archive).toEqual({
      events: 0,
      bytes: 0,
      expiredTime: expect.any(String) as string,
    });
    expect(memory.objects.size).toBe(0);
    stores.sandboxes.set(sandbox);
    const again = await reconcile();
    expect(again.status?.archive).toMatchObject({ events: 3 });
    expect(again.status?.archive?.head).not.toBe(head);
    expect(
      (await client.get(conversations, 'default', known.metadata.name)).status?.archive?.head,
    ).toBe(again.status?.archive?.head);
  });
});

describe('a sweep', () => {
  const aDayMs = 86_400_000;
  const known = { keyId: sceneKeys.currentKeyId, namespaceUid: 'namespace-1' };
  const codec = createCodec({ keys: sceneKeys, encrypt: false });
  const headOf = (uid: string, installation: string): readonly [string, Buffer] => {
    const address = { namespace: 'default', uid };
    const manifest = { ...emptyManifest(address), installation };
    const { name, body } = packHead(codec, address, manifest, Buffer.alloc(0));
    return [keyOf(address, 'h', name), body];
  };
  /** An installation with as many archives of present conversations, and a sweep each hour. */
  const swept = (used: number, options: Parameters<typeof scene>[0] = {}) => {
    const one = scene(options);
    for (let count = 0; count < used; count++) {
      const { metadata, ...rest } = aConversation({ name: `used-${count}` });
      const uid = `uid-of-used-${count}`;
      one.client.put(conversations, { ...rest, metadata: { ...metadata, uid } });
      one.memory.objects.set(...headOf(uid, installationName(known)));
    }
    const sweep = () =>
      one.clock.run(one.archives.sweep.reconcile({ namespace: 'default', name: '' }, signal));
    const sweepFor = async (ms: number) => {
      for (let left = ms; left > 0; left -= 3_600_000) {
        await sweep();
        await one.clock.advance(3_600_000);
      }
      await sweep();
    };
    const isThere = (uid: string) =>
      [...one.memory.objects.keys()].some((key) => key.startsWith(`default/${uid}/`));
    return { ...one, sweep, sweepFor, isThere };
  };

  it.each([
    ['whose conversation is gone', 'own', headOf('gone', installationName(known))],
    [
      'without a head',
      'own',
      ['default/gone/s/0000000001-aaaaaaaaaaaaaaaaaaaaaaaa', Buffer.from('x')],
    ],
    [
      'of an installation whose prefix has the name of the namespace',
      'foreign',
      ['default/gone/uid/h/0000000001-aaaaaaaaaaaaaaaaaaaaaaaa', Buffer.from('x')],
    ],
    ['that is a folder of other files', 'foreign', ['default/gone/h/2026.csv', Buffer.from('x')]],
    [
      'of another namespace of this name',
      'foreign',
      headOf('gone', installationName({ ...known, namespaceUid: 'namespace-2' })),
    ],
    [
      'of another master key',
      'foreign',
      headOf('gone', installationName({ ...known, keyId: '0123456789ab' })),
    ],
    ['that names the key alone', 'foreign', headOf('gone', sceneKeys.currentKeyId)],
    ['that names an empty key', 'foreign', headOf('gone', '/namespace-1')],
    [
      'that can not be read',
      'foreign',
      ['default/gone/h/0000000001-aaaaaaaaaaaaaaaaaaaaaaaa', Buffer.from('x')],
    ],
  ] as const)('of an archive %s, after a day: %s', async (_case, origin, [key, body]) => {
    const { memory, sweepFor, isThere, lines, reported } = swept(10);
    memory.objects.set(key, body);
    await sweepFor(aDayMs - 3_600_000);
    expect(isThere('gone')).toBe(true);
    await sweepFor(3_600_000);
    expect(isThere('gone')).toBe(origin === 'foreign');
    expect(memory.objects.size).toBe(origin === 'foreign' ? 11 : 10);
    expect(lines.filter(({ level }) => level === 'warn')).toHaveLength(
      origin === 'foreign' ? 1 : 0,
    );
    expect(reported).toEqual([]);
  });

  it('counts the day anew for an archive whose conversation was there meanwhile', async () => {
    const { client, memory, sweepFor, isThere } = swept(10);
    memory.objects.set(...headOf('gone', installationName(known)));
    await sweepFor(aDayMs / 2);
    const { metadata, ...rest } = aConversation({ name: 'back' });
    client.put(conversations, { ...rest, metadata: { ...metadata, uid: 'gone' } });
    await sweepFor(3_600_000);
    await client.delete(conversations, 'default', 'back');
    await sweepFor(aDayMs / 2);
    expect(isThere('gone')).toBe(true);
    await sweepFor(aDayMs / 2 + 3_600_000);
    expect(isThere('gone')).toBe(false);
  });

  it('deletes nothing where more than a tenth of the archives are orphans, and says so', async () => {
    const { client, memory, sweepFor, isThere, reported, stores } = swept(17);
    const conditionOf = async () => {
      const template = await client.get(sandboxTemplates, 'default', 'default');
      stores.templates.set(template);
      return findCondition(template.status?.conditions, 'ArchivesSwept');
    };
    for (const uid of ['one', 'two']) memory.objects.set(...headOf(uid, installationName(known)));
    await sweepFor(2 * aDayMs);
    expect([isThere('one'), isThere('two')]).toEqual([true, true]);
    expect(await conditionOf()).toMatchObject({
      status: 'False',
      reason: 'TooManyOrphans',
      message: expect.stringContaining('2 of 19 archives') as string,
    });
    // Archives that a person deletes by this text can not be restored with their conversations.
    expect((await conditionOf())?.message).not.toContain('--delete');
    expect(new Set(reported)).toEqual(new Set(['TooManyOrphans']));
    memory.objects.delete(headOf('two', installationName(known))[0]);
    await sweepFor(3_600_000);
    expect([isThere('one'), memory.objects.size]).toEqual([false, 17]);
    expect(await conditionOf()).toMatchObject({ status: 'True', reason: 'Swept' });
  });

  it('deletes nothing where the namespace can not be read', async () => {
    const { client, memory, sweepFor, isThere, lines } = swept(10);
    memory.objects.set(...headOf('gone', installationName(known)));
    await client.delete(namespaces, '', 'default');
    await sweepFor(2 * aDayMs);
    expect(isThere('gone')).toBe(true);
    expect(lines.some(({ level }) => level === 'warn')).toBe(true);
  });

  it('of a copy of the cluster, with the same key, store and namespace name, leaves the archives of the original', async () => {
    const memory = memoryStore();
    const original = scene({ memory, uid: 'uid-of-the-original' });
    original.agent.events = events(3);
    await original.reconcile();
    const { sweepFor, isThere } = swept(20, { memory, namespaceUid: 'namespace-2' });
    await sweepFor(2 * aDayMs);
    expect(isThere('uid-of-the-original')).toBe(true);
  });
});
