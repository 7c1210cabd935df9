import type { KubeClient } from '@conversation-operator/kube/client';
import type { Lease } from '@conversation-operator/kube/core';
import { gatewayIndexers } from '../../../../src/gateway/lookup/cache.ts';
import { ResourceLookup } from '../../../../src/gateway/lookup/resource-lookup.ts';
import { StorageCaps } from '../../../../src/gateway/lookup/storage-caps.ts';
import { Overview, overviewOf } from '../../../../src/gateway/overview/overview.ts';
import { maxItems, overviewSchema } from '../../../../src/gateway/overview/schemas.ts';
import { decide } from '../../../../src/quota/decide.ts';
import { Snapshot } from '../../../../src/quota/snapshot.ts';
import { classify } from '../../../../src/quota/classify.ts';
import type { ApiKey } from '../../../../src/resources/api-key.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../../../src/resources/cached-conversation.ts';
import type { ConversationQuota } from '../../../../src/resources/conversation-quota.ts';
import { quotaRules } from '../../../../src/quota/rules.ts';
import type { Handover } from '../../../../src/resources/handover.ts';
import {
  usageRecordNameOf,
  usageRecordSpecOf,
  type CachedUsageRecord,
  type UsageSubject,
} from '../../../../src/resources/usage-record.ts';
import { apiVersion } from '../../../../src/resources/group.ts';
import type { OwnerSettings } from '../../../../src/resources/owner-settings.ts';
import type { SandboxPool } from '../../../../src/resources/sandbox-pool.ts';
import type { SandboxTemplate } from '../../../../src/resources/sandbox-template.ts';
import type { Sandbox } from '../../../../src/resources/sandbox.ts';
import {
  aConversation,
  admitted,
  aPool,
  aQuota,
  aSandbox,
  aWarmSandbox,
  aTemplate,
  condition,
  later,
  metadata,
  noon,
  noonMs,
} from '../../../support/builders.ts';
import { TestCache } from '../../../support/test-cache.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const namespace = 'default';
const id = (index: number) => String(index).padStart(32, '0');
const ready = { start: { status: 'READY' as const, transitions: [] } };

function setUp({ elects = true } = {}) {
  const clock = new VirtualClock(noonMs);
  const caches = {
    conversations: new TestCache<CachedConversation>(gatewayIndexers.conversations),
    sandboxes: new TestCache<Sandbox>(gatewayIndexers.sandboxes),
    templates: new TestCache<SandboxTemplate>(),
    quotas: new TestCache<ConversationQuota>(),
    apiKeys: new TestCache<ApiKey>(gatewayIndexers.apiKeys),
    ownerSettings: new TestCache<OwnerSettings>(),
    handovers: new TestCache<Handover>(),
    usageRecords: new TestCache<CachedUsageRecord>(),
  };
  const serviceCaches = { pools: new TestCache<SandboxPool>(), leases: new TestCache<Lease>() };
  const caps = new StorageCaps({ caches, namespace, quotas: () => lookup.quotas() });
  caps.open();
  // A read of the API server would fail.
  const lookup = new ResourceLookup({ client: {} as KubeClient, namespace, caches });
  const sources = {
    lookup,
    caps,
    caches,
    namespace,
    clock,
    version: '1.2.3',
    metricsUrl: undefined,
    serviceCaches: elects ? serviceCaches : { pools: serviceCaches.pools },
    uptimeSeconds: () => 61.4,
  };
  return {
    ...caches,
    ...serviceCaches,
    clock,
    sources,
    read: () => overviewSchema.parse(overviewOf(sources)),
  };
}

/** A conversation in a sandbox of its own. */
function pair(
  scene: ReturnType<typeof setUp>,
  index: number,
  wish: Parameters<typeof aSandbox>[0] & { readonly execution?: 'running' | 'finished' | 'error' },
) {
  const { owner = 'alice', execution } = wish;
  const name = `sbx-${id(index)}`;
  scene.sandboxes.set(aSandbox({ ...wish, name }));
  scene.conversations.set(
    cachedConversation(
      aConversation({
        name: id(index),
        spec: { owner },
        status: {
          ...ready,
          sandboxName: name,
          ...(execution === undefined ? {} : { executionStatus: execution }),
        },
      }),
    ),
  );
}

const running = { replicas: 1, conditions: [admitted, condition('Ready', 'True')] };
const waitingSince = (seconds: number, reason = 'WaitingForQuota') => ({
  waitingSinceTime: later(seconds * 1000),
  conditions: [condition('Admitted', 'False', reason)],
});

describe('what owners use', () => {
  it.each([
    ['an agent that works', { status: running, execution: 'running' }, 'running', 1],
    ['an agent that is done', { status: running, execution: 'finished' }, 'finished', 1],
    ['a run that has failed', { status: running, execution: 'error' }, 'failed', 1],
    ['a start', { status: { replicas: 1, conditions: [admitted] } }, 'starting', 1],
    ['a wait for a slot', { status: waitingSince(0) }, 'waiting', 0],
    ['a pause by its owner', { replicas: 0 }, 'paused', 0],
    ['a pause under way', { replicas: 0, status: running }, 'paused', 1],
    ['a failure', { status: { conditions: [condition('Failed', 'True')] } }, 'failed', 0],
  ] as const)('counts %s', (_what, wish, state, active) => {
    const scene = setUp();
    pair(scene, 1, wish as Parameters<typeof pair>[2]);
    const { owners, totals } = scene.read();
    const none = { running: 0, starting: 0, waiting: 0, paused: 0, finished: 0, failed: 0 };
    expect(owners).toEqual({
      total: 1,
      items: [
        expect.objectContaining({ owner: 'alice', ...none, [state]: 1, active, conversations: 1 }),
      ],
    });
    expect(totals).toMatchObject({ ...none, [state]: 1, active, spares: 0 });
  });

  it('has the limit that holds for each owner, the one with most active sandboxes first', () => {
    const scene = setUp();
    scene.quotas.set(aQuota('all', { limit: 10 }));
    scene.quotas.set(aQuota('of-bob', { limit: 2, owner: 'bob' }));
    pair(scene, 1, { owner: 'alice', status: running });
    pair(scene, 2, { owner: 'bob', status: running });
    pair(scene, 3, { owner: 'bob', status: running });
    expect(scene.read().owners.items).toMatchObject([
      { owner: 'bob', active: 2, quota: 'of-bob', limit: 2 },
      { owner: 'alice', active: 1, quota: 'all', limit: 10 },
    ]);
  });

  it('counts a warm sandbox of a pool apart, and nothing of another namespace', () => {
    const scene = setUp();
    scene.sandboxes.set(aWarmSandbox('spare'));
    const elsewhere = aSandbox({ status: running });
    scene.sandboxes.set({
      ...elsewhere,
      metadata: { ...elsewhere.metadata, namespace: 'elsewhere' },
    });
    const { totals, owners } = scene.read();
    expect([totals.spares, totals.active, owners.total]).toEqual([1, 0, 0]);
  });

  it('names no more owners than it may, and says how many there are', () => {
    const scene = setUp();
    for (let index = 0; index < maxItems + 5; index++)
      pair(scene, index, { owner: `owner-${index}`, status: running });
    const { owners } = scene.read();
    expect([owners.total, owners.items.length]).toEqual([maxItems + 5, maxItems]);
  });
});

describe('what owners spend', () => {
  const month = noon.slice(0, 'YYYY-MM'.length);
  const aRecord = (
    subject: UsageSubject,
    status: NonNullable<CachedUsageRecord['status']>,
  ): CachedUsageRecord => ({
    apiVersion,
    kind: 'UsageRecord',
    metadata: metadata(usageRecordNameOf(subject)),
    spec: usageRecordSpecOf(subject),
    status,
  });
  const totals = (cost: string, calls = 1) => ({
    calls,
    inputTokens: 10 * calls,
    cachedInputTokens: 4,
    outputTokens: 2 * calls,
    cost,
  });
  const account = (quota: string, spent: string) => ({
    key: `${quota}/Month/${month}-01`,
    unit: 'USD' as const,
    spent,
  });
  const budget = (amount: number) => ({
    amount,
    currency: 'USD' as const,
    period: 'Month' as const,
    timeZone: 'UTC',
    onExceeded: 'Reject' as const,
    maxRaise: 0,
  });

  it('is of this month, the dearest first, without the sums of the namespace', () => {
    const scene = setUp();
    scene.usageRecords.set(aRecord({ owner: 'alice', month }, { totals: totals('1.5') }));
    scene.usageRecords.set(aRecord({ owner: 'bob', month }, { totals: totals('20.25', 7) }));
    scene.usageRecords.set(aRecord({ owner: 'free', month }, { totals: totals('0', 9) }));
    scene.usageRecords.set(aRecord({ owner: 'old', month: '2026-02' }, { totals: totals('90') }));
    scene.usageRecords.set(aRecord({ month }, { totals: totals('21.75') }));
    expect(scene.read().spending).toEqual({
      total: 3,
      items: [
        { owner: 'bob', calls: 7, input_tokens: 70, output_tokens: 14, cost: 20.25 },
        { owner: 'alice', calls: 1, input_tokens: 10, output_tokens: 2, cost: 1.5 },
        { owner: 'free', calls: 9, input_tokens: 90, output_tokens: 18, cost: 0 },
      ],
    });
  });

  it('has the budgets with nothing left, those of all owners together once', () => {
    const scene = setUp();
    scene.quotas.set(aQuota('each', { budget: budget(5) }));
    scene.quotas.set(aQuota('together', { scope: 'Namespace', budget: budget(9) }));
    const use = (owner: string, spent: string) =>
      scene.usageRecords.set(aRecord({ owner, month }, { accounts: [account('each', spent)] }));
    use('bob', '5');
    use('alice', '5.000000001');
    use('carol', '4.999999999');
    scene.usageRecords.set(aRecord({ month }, { accounts: [account('together', '9')] }));
    const { exhausted_budgets: exhausted } = scene.read();
    expect(exhausted.total).toBe(3);
    expect(exhausted.items).toMatchObject([
      { quota: 'together', owner: null, scope: 'Namespace', amount: 9, spent: 9 },
      { quota: 'each', owner: 'alice', scope: 'Owner', amount: 5, spent: 5.000000001 },
      { quota: 'each', owner: 'bob', resets_at: '2026-04-01T00:00:00.000000Z' },
    ]);
  });

  it('has the budgets whose rest was too little for a call, for which new starts are refused', () => {
    const scene = setUp();
    scene.quotas.set(aQuota('each', { budget: budget(5) }));
    scene.quotas.set(aQuota('together', { scope: 'Namespace', budget: budget(9) }));
    const use = (subject: UsageSubject, quota: string, spent: string) =>
      scene.usageRecords.set(aRecord(subject, { accounts: [account(quota, spent)] }));
    const refuse = (index: number, owner: string, quota: string, subject: UsageSubject) =>
      scene.conversations.set(
        cachedConversation(
          aConversation({
            name: id(index),
            spec: { owner },
            status: {
              ...ready,
              budgetExhaustion: {
                quota,
                record: usageRecordNameOf(subject),
                account: account(quota, '').key,
                unit: 'USD',
                limit: quota === 'each' ? '5' : '9',
                raised: '0',
                spent: '0',
                time: noon,
              },
            },
          }),
        ),
      );
    for (const [index, owner, spent] of [
      [1, 'alice', '4.7'],
      [2, 'bob', '1'],
    ] as const) {
      use({ owner, month }, 'each', spent);
      refuse(index, owner, 'each', { owner, month });
    }
    use({ owner: 'carol', month }, 'each', '4.7');
    use({ month }, 'together', '8.9');
    refuse(3, 'dave', 'together', { month });
    expect(scene.read().exhausted_budgets).toMatchObject({
      total: 2,
      items: [
        { quota: 'together', owner: null, spent: 8.9 },
        { quota: 'each', owner: 'alice', spent: 4.7 },
      ],
    });
  });

  it('names no more owners than it may, and says how many there are', () => {
    const scene = setUp();
    for (let index = 0; index < maxItems + 5; index++)
      scene.usageRecords.set(aRecord({ owner: `owner-${index}`, month }, { totals: totals('1') }));
    const { spending } = scene.read();
    expect([spending.total, spending.items.length]).toEqual([maxItems + 5, maxItems]);
  });
});

describe('the queue', () => {
  /** The order in which an admission queue with room for all admits the sandboxes. */
  function orderOfAdmission({ sandboxes, conversations, clock }: ReturnType<typeof setUp>) {
    const queue = new Snapshot();
    queue.setRules(quotaRules([aQuota('all', { scope: 'Namespace', limit: 1_000 })]));
    for (const sandbox of sandboxes.store.list()) {
      const inside = conversations.store
        .list()
        .filter(({ status }) => status?.sandboxName === sandbox.metadata.name);
      queue.put(classify({ sandbox, conversations: inside, now: clock.now() }));
    }
    const names: string[] = [];
    for (
      let decision = decide(queue, clock.now());
      decision?.kind === 'admit';
      decision = decide(queue, clock.now())
    ) {
      names.push(decision.slot.name);
      queue.put({ ...decision.slot, state: 'starting', taken: true });
    }
    return names;
  }

  it('has the order in which the operator admits', async () => {
    const scene = setUp();
    await scene.clock.advance(60_000);
    const wishes = [
      { owner: 'alice', status: waitingSince(30) },
      { owner: 'bob', status: waitingSince(10) },
      // A bare resume comes after everything with work to do.
      {
        owner: 'carol',
        status: { ...waitingSince(1, 'WaitingForIdleSandbox'), lastContainerID: 'c' },
      },
      { owner: 'dave', status: waitingSince(10) },
      { owner: 'alice', status: waitingSince(20) },
      { owner: 'erin', status: running },
      { owner: 'frank', replicas: 0 },
    ] as const;
    for (const [index, wish] of wishes.entries()) pair(scene, index, wish);
    const { total, items } = scene.read().queue;
    expect(items.map(({ sandbox_id: name }) => name)).toEqual(orderOfAdmission(scene));
    expect(items.map(({ owner }) => owner)).toEqual(['bob', 'dave', 'alice', 'alice', 'carol']);
    expect(items.map(({ position }) => position)).toEqual([1, 2, 3, 4, 5]);
    expect(total).toBe(5);
    expect(items[0]).toEqual({
      position: 1,
      sandbox_id: `sbx-${id(1)}`,
      conversation_id: id(1),
      owner: 'bob',
      reason: 'waiting-for-quota',
      message: 'WaitingForQuota.',
      since: '2026-03-01T12:00:10.000000Z',
    });
  });

  it('has the starts that wait for a budget last, as many as the totals count', () => {
    const scene = setUp();
    const held = (index: number, error: string) => {
      const errorCode = 'WaitingForBudget';
      const start = { status: 'WORKING' as const, errorCode, error, transitions: [] };
      const made = aConversation({ name: id(index), spec: { owner: 'bob' }, status: { start } });
      const creationTimestamp = later(index * 1_000);
      scene.conversations.set(
        cachedConversation({ ...made, metadata: { ...made.metadata, creationTimestamp } }),
      );
    };
    held(3, 'Waiting for the budget, too.');
    held(2, 'Waiting for the budget.');
    pair(scene, 1, { status: waitingSince(10) });
    const { queue, totals: sums } = scene.read();
    expect([queue.total, sums.waiting]).toEqual([3, 3]);
    expect(queue.items.map(({ conversation_id: name }) => name)).toEqual([id(1), id(2), id(3)]);
    expect(queue.items[1]).toEqual({
      position: 2,
      sandbox_id: null,
      conversation_id: id(2),
      owner: 'bob',
      reason: 'waiting-for-budget',
      message: 'Waiting for the budget.',
      since: '2026-03-01T12:00:02.000000Z',
    });
  });

  it('has no title of a conversation, and no more items than it may', () => {
    const scene = setUp();
    for (let index = 0; index < maxItems + 3; index++)
      pair(scene, index, { status: waitingSince(index) });
    const secret = cachedConversation(
      aConversation({
        name: id(0),
        spec: { title: 'Buy the rival' },
        status: { ...ready, sandboxName: `sbx-${id(0)}` },
      }),
    );
    scene.conversations.set(secret);
    const record = scene.read();
    expect([record.queue.total, record.queue.items.length]).toEqual([maxItems + 3, maxItems]);
    expect(JSON.stringify(record)).not.toContain('rival');
  });
});

describe('what is wrong with the installation', () => {
  it('has the reason of an invalid template before all others', () => {
    const scene = setUp();
    const named = (name: string, valid?: ReturnType<typeof condition>) => {
      const template = aTemplate();
      scene.templates.set({
        ...template,
        metadata: { ...template.metadata, name },
        ...(valid === undefined ? {} : { status: { conditions: [valid] } }),
      });
    };
    named('a-good-one', condition('Valid', 'True', 'Valid'));
    named('new');
    named('z-bad', {
      ...condition('Valid', 'False', 'Invalid'),
      message: `No\u202Eimage\u0000 <img src=x>${'.'.repeat(600)}`,
    });
    const { items } = scene.read().templates;
    expect(items.map(({ name, is_valid: isValid }) => [name, isValid])).toEqual([
      ['z-bad', false],
      ['new', null],
      ['a-good-one', true],
    ]);
    expect(items[0]?.reason).toBe('Invalid');
    expect(items[0]?.message).toMatch(/^Noimage <img src=x>\.+$/);
    expect(items[0]?.message).toHaveLength(500);
  });

  it('has the quotas with what conflicts, and the pools with their reason', () => {
    const scene = setUp();
    scene.quotas.set({
      ...aQuota('tight', { limit: 3 }),
      status: {
        active: 3,
        waiting: 2,
        paused: 1,
        fullOwners: [{ owner: 'alice' }],
        conditions: [condition('Conflicting', 'True', 'SameScope')],
      },
    });
    scene.pools.set({
      ...aPool({ replicas: 4 }, 'warm'),
      status: { readyReplicas: 1, conditions: [condition('Ready', 'False', 'SpareFailed')] },
    });
    const { quotas, pools } = scene.read();
    expect(quotas.items).toMatchObject([
      { name: 'tight', active: 3, waiting: 2, paused: 1, full_owners: 1, conflict: 'SameScope.' },
    ]);
    expect(pools.items).toMatchObject([
      { name: 'warm', wanted: 4, ready: 1, is_ready: false, reason: 'SpareFailed' },
    ]);
  });

  it('says which caches may miss changes', () => {
    const scene = setUp();
    scene.sandboxes.freshness = { newsAgeMs: 12_345, isInterrupted: true };
    expect(scene.read().caches.find(({ kind }) => kind === 'Sandbox')).toEqual({
      kind: 'Sandbox',
      objects: 0,
      is_synced: true,
      is_interrupted: true,
      news_age_seconds: 12.3,
    });
  });
});

describe('who leads', () => {
  const lease = (name: string, holderIdentity: string, renewTime: string): Lease => ({
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { ...aTemplate().metadata, name },
    spec: { holderIdentity, renewTime, leaseDurationSeconds: 15 },
  });

  it.each([
    ['no Lease', [], [{ shard: null, holder: null, renewed_at: null, is_live: false }]],
    [
      'a leader',
      [lease('conversation-operator', 'op-1', noon)],
      [{ shard: null, holder: 'op-1', is_live: true }],
    ],
    [
      'a leader that does not renew its Lease',
      [lease('conversation-operator', 'op-1', later(-60_000))],
      [{ shard: null, holder: 'op-1', is_live: false }],
    ],
    [
      'a released Lease',
      [lease('conversation-operator', '', noon)],
      [{ shard: null, holder: null, is_live: false }],
    ],
    [
      'shards',
      [
        lease('conversation-operator', 'shards-2', noon),
        lease('conversation-operator-0', 'op-2', noon),
      ],
      [
        { shard: 0, holder: 'op-2', is_live: true },
        { shard: 1, holder: null, is_live: false },
      ],
    ],
  ] as const)('is shown for %s', (_what, stored, leaders) => {
    const scene = setUp();
    for (const one of stored) scene.leases.set(one);
    expect(scene.read().leaders).toMatchObject(leaders);
  });

  it('is not said where none is elected', () => {
    expect(setUp({ elects: false }).read().leaders).toBeNull();
  });
});

it('makes the answer again after two seconds, and shares it until then', async () => {
  const scene = setUp();
  const overview = new Overview(scene.sources);
  const first = overview.text;
  pair(scene, 1, { status: running });
  await scene.clock.advance(1_900);
  expect(overview.text).toBe(first);
  await scene.clock.advance(200);
  expect(overviewSchema.parse(JSON.parse(overview.text)).owners.total).toBe(1);
});
