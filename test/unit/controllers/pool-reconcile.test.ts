import { bySparePool, sandboxIndexers } from '../../../src/controllers/caches.ts';
import { PoolReconciler } from '../../../src/controllers/pool/reconcile.ts';
import { StartCounts } from '../../../src/controllers/pool/start-counts.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { ownerReferenceTo } from '../../../packages/kube/src/object.ts';
import { IndexedStore } from '../../../packages/kube/src/store.ts';
import { sandboxes, type Sandbox } from '../../../src/resources/sandbox.ts';
import { sandboxPools, type SandboxPool } from '../../../src/resources/sandbox-pool.ts';
import type { SandboxTemplate } from '../../../src/resources/sandbox-template.ts';
import { aPool, aSpare, aTemplate } from '../../support/builders.ts';
import { FakeKubeClient } from '../../support/fake-kube-client.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const { signal } = new AbortController();

/** A pool, and a spare of it that the API server has; `isCached`: the cache shows the spare too. */
async function aPoolWithSpare(replicas: number, { isCached }: { readonly isCached: boolean }) {
  const client = new FakeKubeClient();
  const clock = new VirtualClock();
  const stores = {
    sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
    templates: new IndexedStore<SandboxTemplate>(),
    pools: new IndexedStore<SandboxPool>(),
  };
  const pool = aPool({ replicas });
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
  const stored = await client.get(sandboxes, 'default', 'spare');
  if (isCached) stores.sandboxes.set(stored);
  expect(stores.sandboxes.byIndex(bySparePool, 'default/default')).toHaveLength(Number(isCached));
  const reconciler = new PoolReconciler({
    client,
    stores,
    admission: { queue: () => ({ roomForSpares: Infinity }), sandboxes: () => [stored] },
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
    clock,
    left,
    reconcile: () => reconciler.reconcile({ namespace: 'default', name: 'default' }, signal),
  };
}

it('deletes a spare that its pool does not want any more', async () => {
  const { left, reconcile } = await aPoolWithSpare(0, { isCached: true });
  await reconcile();
  expect(await left()).toEqual([]);
});

it('keeps a spare that a start has claimed, which the cache does not show yet', async () => {
  const { client, left, reconcile } = await aPoolWithSpare(0, { isCached: true });
  await client.mergePatch(sandboxes, 'default', 'spare', { spec: { owner: 'alice' } });
  await reconcile();
  expect(await left()).toEqual([['spare', 'alice']]);
});

it('creates no spare beside one of an earlier leader, which the cache does not show yet', async () => {
  const { left, reconcile } = await aPoolWithSpare(1, { isCached: false });
  await reconcile();
  expect(await left()).toEqual([['spare', '']]);
});

it('replaces a spare of an earlier leader that is gone before the cache shows it', async () => {
  const { client, clock, left, reconcile } = await aPoolWithSpare(1, { isCached: false });
  await client.delete(sandboxes, 'default', 'spare');
  await reconcile();
  expect(await left()).toEqual([]);
  await clock.advance(5_000);
  await reconcile();
  expect(await left()).toEqual([[expect.stringMatching(/^sbx-/), '']]);
});
