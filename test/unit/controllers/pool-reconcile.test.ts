import { bySparePool, sandboxIndexers } from '../../../src/controllers/caches.ts';
import { PoolReconciler } from '../../../src/controllers/pool/reconcile.ts';
import { StartCounts } from '../../../src/controllers/pool/start-counts.ts';
import { silentLogger } from '@conversation-operator/kube/logger';
import { ownerReferenceTo } from '../../../packages/kube/src/object.ts';
import { IndexedStore } from '../../../packages/kube/src/store.ts';
import { sandboxes, type Sandbox } from '../../../src/resources/sandbox.ts';
import { sandboxPools, type SandboxPool } from '../../../src/resources/sandbox-pool.ts';
import type { SandboxTemplate } from '../../../src/resources/sandbox-template.ts';
import { aPool, aSpare, aTemplate } from '../../support/builders.ts';
import { FakeKubeClient } from '../../support/fake-kube-client.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const { signal } = new AbortController();

/** A pool that wants no spare, and one that the API server and the cache have. */
async function aPoolOfNone() {
  const client = new FakeKubeClient();
  const clock = new VirtualClock();
  const stores = {
    sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
    templates: new IndexedStore<SandboxTemplate>(),
    pools: new IndexedStore<SandboxPool>(),
  };
  const pool = aPool({ replicas: 0 });
  client.put(sandboxPools, pool);
  stores.pools.set(await client.get(sandboxPools, 'default', 'default'));
  stores.templates.set(aTemplate());
  const spare = aSpare('spare');
  client.put(sandboxes, {
    ...spare,
    metadata: {
      ...spare.metadata,
      ownerReferences: [ownerReferenceTo(pool, { controller: true })],
    },
  });
  stores.sandboxes.set(await client.get(sandboxes, 'default', 'spare'));
  expect(stores.sandboxes.byIndex(bySparePool, 'default/default')).toHaveLength(1);
  const reconciler = new PoolReconciler({
    client,
    stores,
    queue: () => ({ roomForSpares: Infinity }),
    counts: new StartCounts({ clock }),
    events: { record: () => undefined },
    clock,
    random: () => 0.5,
    logger: silentLogger,
  });
  const left = async () =>
    (await client.list(sandboxes)).items.map(({ metadata, spec }) => [metadata.name, spec.owner]);
  return {
    client,
    left,
    reconcile: () => reconciler.reconcile({ namespace: 'default', name: 'default' }, signal),
  };
}

it('deletes a spare that its pool does not want any more', async () => {
  const { left, reconcile } = await aPoolOfNone();
  await reconcile();
  expect(await left()).toEqual([]);
});

it('keeps a spare that a start has claimed, which the cache does not show yet', async () => {
  const { client, left, reconcile } = await aPoolOfNone();
  await client.mergePatch(sandboxes, 'default', 'spare', { spec: { owner: 'alice' } });
  await reconcile();
  expect(await left()).toEqual([['spare', 'alice']]);
});
