import {
  bySparePool,
  poolTemplateIndexers,
  sandboxIndexers,
} from '../../../src/controllers/caches.ts';
import { PoolReconciler } from '../../../src/controllers/pool/reconcile.ts';
import { StartCounts } from '../../../src/controllers/pool/start-counts.ts';
import { silentLogger } from '@conversation-operator/kube/logger';
import type { Result } from '../../../packages/kube/src/controller.ts';
import { ownerReferenceTo } from '../../../packages/kube/src/object.ts';
import { IndexedStore } from '../../../packages/kube/src/store.ts';
import { sandboxes, type Sandbox, type SandboxState } from '../../../src/resources/sandbox.ts';
import {
  sandboxPools,
  type SandboxPool,
  type SandboxPoolSpec,
} from '../../../src/resources/sandbox-pool.ts';
import type { SandboxTemplate } from '../../../src/resources/sandbox-template.ts';
import { aPool, aSpare, aTemplate, admitted, condition } from '../../support/builders.ts';
import { FakeKubeClient } from '../../support/fake-kube-client.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const { signal } = new AbortController();

/** Pools on an API server in memory. A test shows the reconciler what a watch would. */
class PoolScene {
  readonly client = new FakeKubeClient();
  readonly clock = new VirtualClock();
  readonly stores = {
    sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
    templates: new IndexedStore<SandboxTemplate>(),
    pools: new IndexedStore<SandboxPool>(poolTemplateIndexers),
  };
  /** Messages of the Events. */
  readonly events: string[] = [];
  /** The sandboxes that admission has listed. */
  readonly listed: Sandbox[] = [];
  room = Infinity;
  readonly reconciler = new PoolReconciler({
    client: this.client,
    stores: this.stores,
    admission: {
      queue: () => ({ roomForSpares: this.room }),
      sandboxes: () => this.listed,
    },
    counts: new StartCounts({ clock: this.clock }),
    events: { record: (_pool, { message }) => void this.events.push(message) },
    clock: this.clock,
    random: Math.random,
    logger: silentLogger,
  });

  constructor() {
    this.stores.templates.set(aTemplate());
  }

  async addPool(spec: Partial<SandboxPoolSpec>, name = 'default'): Promise<void> {
    this.client.put(sandboxPools, aPool(spec, name));
    this.stores.pools.set(await this.client.get(sandboxPools, 'default', name));
  }

  async addSpare(name: string, status?: Partial<SandboxState>): Promise<Sandbox> {
    const spare = aSpare(name, status);
    const ownerReferences = [ownerReferenceTo(aPool(), { controller: true })];
    this.client.put(sandboxes, { ...spare, metadata: { ...spare.metadata, ownerReferences } });
    return this.client.get(sandboxes, 'default', name);
  }

  /** Shows the caches everything that is stored. Spares without a status have booted. */
  async sync(): Promise<void> {
    const { sandboxes: cached, pools } = this.stores;
    for (const { metadata } of cached.list()) cached.delete('default', metadata.name);
    for (const each of (await this.client.list(sandboxes)).items)
      cached.set({ ...each, status: each.status ?? aSpare(each.metadata.name).status ?? {} });
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

/** A pool, and a spare of it that the API server has; `isCached`: the cache shows the spare too. */
async function aPoolWithSpare(replicas: number, { isCached }: { readonly isCached: boolean }) {
  const scene = new PoolScene();
  await scene.addPool({ replicas });
  const stored = await scene.addSpare('spare');
  scene.listed.push(stored);
  if (isCached) scene.stores.sandboxes.set(stored);
  expect(scene.stores.sandboxes.byIndex(bySparePool, 'default/default')).toHaveLength(
    Number(isCached),
  );
  return scene;
}

it('deletes a spare that its pool does not want any more', async () => {
  const scene = await aPoolWithSpare(0, { isCached: true });
  await scene.reconcile();
  expect(await scene.left()).toEqual([]);
});

it('keeps a spare that a start has claimed, which the cache does not show yet', async () => {
  const scene = await aPoolWithSpare(0, { isCached: true });
  await scene.client.mergePatch(sandboxes, 'default', 'spare', { spec: { owner: 'alice' } });
  await scene.reconcile();
  expect(await scene.left()).toEqual([['spare', 'alice']]);
});

it('creates no spare beside one of an earlier leader, which the cache does not show yet', async () => {
  const scene = await aPoolWithSpare(1, { isCached: false });
  await scene.reconcile();
  expect(await scene.left()).toEqual([['spare', '']]);
});

it('replaces a spare of an earlier leader that is gone before the cache shows it', async () => {
  const scene = await aPoolWithSpare(1, { isCached: false });
  await scene.client.delete(sandboxes, 'default', 'spare');
  await scene.reconcile();
  expect(await scene.left()).toEqual([]);
  await scene.clock.advance(5_000);
  await scene.reconcile();
  expect(await scene.left()).toEqual([[expect.stringMatching(/^sbx-/), '']]);
});

it('replaces the spares of a lost node at once, and counts no failed boot', async () => {
  const scene = new PoolScene();
  await scene.addPool({ replicas: 8 });
  for (let count = 0; count < 8; count++) await scene.addSpare(`spare-${count}`);
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
