import { AdmissionCache } from '../../../../src/controllers/admission/cache.ts';
import { AdmissionReads } from '../../../../src/controllers/admission/reads.ts';
import {
  bySandbox,
  byWarmSandboxPool,
  poolIndexers,
  sandboxIndexers,
} from '../../../../src/controllers/caches.ts';
import { PoolReconciler } from '../../../../src/controllers/pool/reconcile.ts';
import { PodCreations } from '../../../../src/controllers/sandbox/pod-creations.ts';
import { buildPod } from '../../../../src/controllers/sandbox/pod.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { Controller, type Request, type Result } from '@conversation-operator/kube/controller';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import type { CachedConversation } from '../../../../src/resources/cached-conversation.ts';
import type { CachedPod } from '../../../../src/resources/cached-core.ts';
import type { ConversationQuota } from '../../../../src/resources/conversation-quota.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import {
  poolLabel,
  sandboxes,
  type Sandbox,
  type SandboxState,
} from '../../../../src/resources/sandbox.ts';
import {
  sandboxPools,
  type SandboxPool,
  type SandboxPoolSpec,
} from '../../../../src/resources/sandbox-pool.ts';
import type { SandboxTemplate } from '../../../../src/resources/sandbox-template.ts';
import { aPool, aWarmSandbox, aTemplate, admitted, condition } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const { signal } = new AbortController();

/** Pools on an API server in memory. A test shows the reconciler what a watch would. */
class PoolScene {
  readonly client = new FakeKubeClient();
  readonly clock = new VirtualClock();
  readonly stores = {
    sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
    templates: new IndexedStore<SandboxTemplate>(),
    pools: new IndexedStore<SandboxPool>(poolIndexers),
  };
  readonly events: string[] = [];
  readonly reads: AdmissionReads;
  room = Infinity;
  readonly reconciler: PoolReconciler;

  constructor() {
    const { client, clock } = this;
    const options = { client, clock, random: () => 0, logger: silentLogger };
    const stores = {
      ...this.stores,
      conversations: new IndexedStore<CachedConversation>({ [bySandbox]: () => [] }),
      quotas: new IndexedStore<ConversationQuota>(),
      pods: new IndexedStore<CachedPod>(),
    };
    const lookups = new Controller({
      ...options,
      name: 'lookup',
      reconcile: (request) => this.reads.read(request, signal),
    });
    const ignored = { enqueue: () => undefined };
    const lookup = {
      enqueue: (request: Request, delayMs = 0) => lookups.enqueueAfter(request, delayMs),
    };
    const channels = { admission: ignored, lookup, quota: ignored };
    const cache = new AdmissionCache({ ...options, stores, channels, metrics: createMetrics() });
    const podCreations = new PodCreations(clock);
    this.reads = new AdmissionReads({ ...options, stores, channels, cache, podCreations });
    lookups.start();
    this.reconciler = new PoolReconciler({
      ...options,
      stores,
      reads: this.reads,
      random: Math.random,
      admission: { snapshot: () => ({ roomForWarmSandboxes: this.room }) },
      events: { record: (_pool, { message }) => void this.events.push(message) },
    });
    this.stores.templates.set(aTemplate());
  }

  async addPool(spec: Partial<SandboxPoolSpec>, name = 'default'): Promise<void> {
    this.client.put(sandboxPools, aPool(spec, name));
    this.stores.pools.set(await this.client.get(sandboxPools, 'default', name));
  }

  async addWarmSandbox(name: string, status?: Partial<SandboxState>): Promise<Sandbox> {
    this.client.put(sandboxes, aWarmSandbox(name, status));
    return this.client.get(sandboxes, 'default', name);
  }

  /** Claims the first ready warm sandbox of a pool, as starts do. False: there is none. */
  async claim(name = 'default'): Promise<boolean> {
    const [warmSandbox] = this.stores.sandboxes.byIndex(byWarmSandboxPool, `default/${name}`);
    if (warmSandbox === undefined) return false;
    const claim = { spec: { owner: 'alice' } };
    await this.client.mergePatch(sandboxes, 'default', warmSandbox.metadata.name, claim);
    const pool = this.stores.pools.get('default', name);
    if (pool !== undefined) this.reconciler.claimed(pool);
    return true;
  }

  /** Shows the caches everything that is stored. Warm sandboxes without a status have booted. */
  async sync(): Promise<void> {
    const { sandboxes: cached, pools } = this.stores;
    for (const { metadata } of cached.list()) cached.delete('default', metadata.name);
    for (const { metadata } of pools.list()) pools.delete('default', metadata.name);
    for (const each of (await this.client.list(sandboxes)).items)
      cached.set({ ...each, status: each.status ?? aWarmSandbox(each.metadata.name).status ?? {} });
    for (const each of (await this.client.list(sandboxPools)).items) pools.set(each);
  }

  reconcile(name = 'default'): Promise<Result> {
    return this.reconciler.reconcile({ namespace: 'default', name }, signal);
  }

  async left(): Promise<readonly (readonly [string, string])[]> {
    const { items } = await this.client.list(sandboxes);
    return items.map(({ metadata, spec }) => [metadata.name, spec.owner]);
  }

  pool(name = 'default'): Promise<SandboxPool> {
    return this.client.get(sandboxPools, 'default', name);
  }
}

/** A pool and its warm sandbox on the API server; `isCached`: the cache shows that too. */
async function aPoolWithWarmSandbox(
  replicas: number,
  { isCached }: { readonly isCached: boolean },
) {
  const scene = new PoolScene();
  await scene.addPool({ replicas });
  const stored = await scene.addWarmSandbox('spare');
  scene.reads.created(stored);
  if (isCached) scene.stores.sandboxes.set(stored);
  expect(scene.stores.sandboxes.byIndex(byWarmSandboxPool, 'default/default')).toHaveLength(
    Number(isCached),
  );
  return scene;
}

it('deletes a warm sandbox that its pool does not want any more', async () => {
  const scene = await aPoolWithWarmSandbox(0, { isCached: true });
  await scene.reconcile();
  expect(await scene.left()).toEqual([]);
});

it('keeps a warm sandbox that a start has claimed, which the cache does not show yet', async () => {
  const scene = await aPoolWithWarmSandbox(0, { isCached: true });
  await scene.client.mergePatch(sandboxes, 'default', 'spare', { spec: { owner: 'alice' } });
  await scene.reconcile();
  expect(await scene.left()).toEqual([['spare', 'alice']]);
});

it('creates no warm sandbox beside one of an earlier leader, which the cache does not show yet', async () => {
  const scene = await aPoolWithWarmSandbox(1, { isCached: false });
  await scene.reconcile();
  expect(await scene.left()).toEqual([['spare', '']]);
});

it('replaces a warm sandbox of an earlier leader that is gone before the cache shows it', async () => {
  const scene = await aPoolWithWarmSandbox(1, { isCached: false });
  await scene.client.delete(sandboxes, 'default', 'spare');
  await scene.reconcile();
  expect(await scene.left()).toEqual([]);
  await scene.clock.advance(5_000);
  await scene.reconcile();
  expect(await scene.left()).toEqual([[expect.stringMatching(/^sbx-/), '']]);
});

it('replaces the warm sandboxes of a lost node at once, and counts no failed boot', async () => {
  const scene = new PoolScene();
  await scene.addPool({ replicas: 8 });
  for (let count = 0; count < 8; count++) await scene.addWarmSandbox(`spare-${count}`);
  await scene.sync();
  await scene.reconcile();
  for (let count = 0; count < 6; count++) {
    const lost = await scene.client.get(sandboxes, 'default', `spare-${count}`);
    const conditions = ['Ready', 'Failed'].map((type) =>
      condition(type, type === 'Failed' ? 'True' : 'False', 'NodeLost'),
    );
    await scene.client.updateStatus(sandboxes, {
      ...lost,
      status: { ...lost.status, conditions: [admitted, ...conditions] },
    });
    await scene.sync();
    await scene.reconcile();
    await scene.clock.advance(20);
  }
  await scene.sync();
  await scene.clock.advance(1_000);
  await scene.reconcile();
  expect(await scene.left()).toHaveLength(8);
  expect((await scene.pool()).status).toMatchObject({ readyReplicas: 8 });
  expect((await scene.pool()).status?.failures).toBeUndefined();
  expect(scene.events).toEqual([]);
});

describe('after claims', () => {
  const refill = { maxPerMinute: 60, delay: '5s' };
  /** Claims a warm sandbox each second; returns when warm sandboxes were created, in seconds. */
  async function underSteadyClaims(scene: PoolScene, seconds: number): Promise<readonly number[]> {
    const createdAt: number[] = [];
    const seen = new Set<string>();
    for (let second = 0; second < seconds; second++) {
      await scene.sync();
      for (const [name] of await scene.left()) {
        if (!seen.has(name) && second > 0) createdAt.push(second - 1);
        seen.add(name);
      }
      expect(await scene.claim()).toBe(true);
      await scene.sync();
      await scene.reconcile();
      await scene.clock.advance(1_000);
    }
    return createdAt;
  }

  it('replaces each warm sandbox within the delay of its own claim, whatever claims follow', async () => {
    const scene = new PoolScene();
    await scene.addPool({ replicas: 8, refill });
    for (let count = 0; count < 8; count++) await scene.addWarmSandbox(`spare-${count}`);
    expect(await underSteadyClaims(scene, 12)).toEqual([5, 6, 7, 8, 9, 10]);
  });

  it('asks for a reconcile when the first replacement is due', async () => {
    const scene = new PoolScene();
    await scene.addPool({ replicas: 2, refill });
    for (const name of ['a', 'b']) await scene.addWarmSandbox(name);
    await scene.sync();
    await scene.reconcile();
    await scene.clock.advance(10_000);
    await scene.claim();
    await scene.clock.advance(2_000);
    await scene.sync();
    await scene.claim();
    await scene.sync();
    expect(await scene.reconcile()).toEqual({ requeueAfterMs: 3_000 });
    await scene.clock.advance(3_000);
    await scene.reconcile();
    expect(await scene.left()).toHaveLength(3);
  });

  it('writes the status once a second at most', async () => {
    const scene = new PoolScene();
    await scene.addPool({ replicas: 100, refill: { maxPerMinute: 6_000, delay: '0s' } });
    for (let count = 0; count < 100; count++) await scene.addWarmSandbox(`spare-${count}`);
    await scene.sync();
    let writes = 0;
    const updateStatus = scene.client.updateStatus.bind(scene.client);
    scene.client.updateStatus = (...request) => {
      writes += 1;
      return updateStatus(...request);
    };
    for (let count = 0; count < 50; count++) {
      await scene.claim();
      await scene.sync();
      await scene.reconcile();
      await scene.clock.advance(100);
    }
    expect(writes).toBeGreaterThan(1);
    expect(writes).toBeLessThanOrEqual(5);
  });
});

describe('two pools of a namespace whose quota has no room for both', () => {
  const warmSandboxes = (scene: PoolScene) =>
    ['default', 'second'].map(
      (name) => scene.stores.sandboxes.byIndex(byWarmSandboxPool, `default/${name}`).length,
    );
  const settle = async (scene: PoolScene) => {
    for (let round = 0; round < 3; round++) {
      await Promise.all(['default', 'second'].map((name) => scene.reconcile(name)));
      await scene.sync();
      expect((await scene.left()).length).toBeLessThanOrEqual(scene.room);
      await scene.clock.advance(1_000);
    }
  };

  it.each([
    { room: 4, wanted: [2, 3], kept: [2, 2] },
    { room: 3, wanted: [2, 2], kept: [1, 2] },
    { room: 1, wanted: [3, 3], kept: [0, 1] },
    { room: 5, wanted: [1, 9], kept: [1, 4] },
    { room: 0, wanted: [2, 2], kept: [0, 0] },
    { room: 9, wanted: [2, 3], kept: [2, 3] },
  ])('share the room of $room for $wanted', async ({ room, wanted, kept }) => {
    const scene = new PoolScene();
    scene.room = room;
    const [one = 0, two = 0] = wanted;
    await scene.addPool({ replicas: one });
    await scene.addPool({ replicas: two }, 'second');
    await settle(scene);
    expect(warmSandboxes(scene)).toEqual(kept);
  });

  it('never exceed the room while one makes place for the other', async () => {
    const scene = new PoolScene();
    scene.room = 2;
    await scene.addPool({ replicas: 2 });
    await scene.reconcile();
    await scene.addPool({ replicas: 2 }, 'second');
    await scene.sync();
    await scene.reconcile('second');
    await scene.sync();
    expect(warmSandboxes(scene)).toEqual([2, 0]);
    await settle(scene);
    expect(warmSandboxes(scene)).toEqual([1, 1]);
  });

  it('count what the other creates now', async () => {
    const scene = new PoolScene();
    scene.room = 3;
    await scene.addPool({ replicas: 3 });
    const { client } = scene;
    const create = client.create.bind(client);
    let answer = (): void => undefined;
    const answered = new Promise<void>((resolve) => (answer = resolve));
    client.create = async (...request) => {
      await answered;
      return create(...request);
    };
    const creating = scene.reconcile();
    await scene.addPool({ replicas: 1 }, 'second');
    const other = scene.reconcile('second');
    answer();
    await Promise.all([creating, other]);
    await scene.sync();
    expect(warmSandboxes(scene)).toEqual([3, 0]);
  });

  it('leave the room of a pool that can make no warm sandboxes to the other', async () => {
    const scene = new PoolScene();
    scene.room = 2;
    await scene.addPool({ replicas: 2 });
    await scene.addPool({ replicas: 2, templateName: 'unknown' }, 'second');
    await settle(scene);
    expect(warmSandboxes(scene)).toEqual([2, 0]);
  });
});

it('keeps warm sandboxes for pools whose names are too long for a label, each with a label of its own', async () => {
  const scene = new PoolScene();
  const names = ['a', 'b'].map((end) => `${'p'.repeat(252)}${end}`);
  for (const name of names) {
    await scene.addPool({ replicas: 1 }, name);
    await scene.reconcile(name);
  }
  const { items } = await scene.client.list(sandboxes);
  const labels = items.map((warmSandbox) => {
    const label = warmSandbox.metadata.labels?.[poolLabel] ?? '';
    expect(label).toMatch(/^[a-z0-9][a-z0-9.-]{0,61}[a-z0-9]$/);
    expect(
      buildPod(warmSandbox, aTemplate(), { bootstrapKey: 'key' }).metadata.labels?.[poolLabel],
    ).toBe(label);
    return `${poolLabel}=${label}`;
  });
  expect(new Set(labels).size).toBe(2);
  const pools = await Promise.all(names.map((name) => scene.pool(name)));
  expect(pools.map(({ status }) => status?.selector).sort()).toEqual(labels.sort());
});

describe('the warm sandboxes of a deleted pool', () => {
  it('go, without those that starts have claimed', async () => {
    const scene = new PoolScene();
    await scene.addPool({ replicas: 2 });
    for (const name of ['a', 'b']) await scene.addWarmSandbox(name);
    await scene.sync();
    const [warmSandbox] = scene.stores.sandboxes.byIndex(byWarmSandboxPool, 'default/default');
    await scene.client.mergePatch(sandboxes, 'default', warmSandbox?.metadata.name ?? '', {
      spec: { owner: 'alice' },
    });
    await scene.client.delete(sandboxPools, 'default', 'default');
    scene.stores.pools.delete('default', 'default');
    await scene.reconcile();
    expect(await scene.left()).toEqual([['a', 'alice']]);
  });

  it('stay while only the cache does not show the pool', async () => {
    const scene = new PoolScene();
    await scene.addPool({ replicas: 1 });
    await scene.addWarmSandbox('a');
    await scene.sync();
    scene.stores.pools.delete('default', 'default');
    await scene.reconcile();
    expect(await scene.left()).toEqual([['a', '']]);
  });

  it('have no owner reference, by which an old garbage collector would delete a claimed one', async () => {
    const scene = new PoolScene();
    await scene.addPool({ replicas: 1 });
    await scene.reconcile();
    const { items } = await scene.client.list(sandboxes);
    expect(items.map(({ metadata }) => metadata.ownerReferences)).toEqual([undefined]);
  });
});
