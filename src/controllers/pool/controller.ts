import type { Request } from '@conversation-operator/kube/controller';
import type { KubeObject } from '@conversation-operator/kube/object';
import { isSpare, type Sandbox } from '../../resources/sandbox.ts';
import type { Snapshot } from '../../quota/snapshot.ts';
import { byNamespace, type WatchedCaches } from '../caches.ts';
import { requestOf, watch, type ControllerSpec, type EventSource } from '../event-source.ts';
import type { PoolReconciler } from './reconcile.ts';
import { workers } from '../workers.ts';

const isEdited = ({ metadata }: KubeObject, { metadata: old }: KubeObject): boolean =>
  metadata.generation !== old.generation || metadata.deletionTimestamp !== old.deletionTimestamp;

export interface PoolControllerOptions {
  readonly caches: Pick<WatchedCaches, 'sandboxes' | 'templates' | 'pools' | 'quotas'>;
  readonly reconciler: Pick<PoolReconciler, 'reconcile' | 'refresh' | 'claimed'>;
  readonly admission: { snapshot(namespace: string): Pick<Snapshot, 'roomForSpares'> };
}

/** Keeps the spares of pools. */
export function poolController(options: PoolControllerOptions): ControllerSpec {
  const { caches, reconciler, admission } = options;
  const pools = caches.pools.store;
  const poolsIn = ({ metadata: { namespace = '' } }: KubeObject): readonly Request[] =>
    pools.byIndex(byNamespace, namespace).map(requestOf);
  /** Sandboxes that are spares, or share with spares what `maxSandboxes` of a namespace allows. */
  const sandboxes: EventSource = (queue) => {
    const enqueue = (sandbox: Sandbox, pool: string | undefined): void => {
      const { namespace } = sandbox.metadata;
      if (pool !== undefined) queue.enqueueAfter({ namespace, name: pool }, 0);
      if (admission.snapshot(namespace).roomForSpares < Infinity)
        for (const request of poolsIn(sandbox)) queue.enqueueAfter(request, 0);
    };
    const changed = (sandbox: Sandbox): void =>
      enqueue(sandbox, isSpare(sandbox) ? sandbox.spec.poolName : undefined);
    return caches.sandboxes.addHandler({
      added: changed,
      updated: (sandbox, old) => {
        const { poolName = '' } = sandbox.spec;
        if (isSpare(sandbox) || isEdited(sandbox, old)) changed(sandbox);
        if (isSpare(sandbox) || !isSpare(old)) return;
        const pool = pools.get(sandbox.metadata.namespace, poolName);
        if (pool !== undefined) reconciler.claimed(pool);
        enqueue(sandbox, poolName);
      },
      deleted: changed,
    });
  };
  const relevant = { isRelevant: isEdited };
  return {
    name: 'pool',
    workers: workers.pool,
    sources: [
      watch(caches.pools, (pool) => [requestOf(pool)]),
      // The pools of a namespace share its room.
      watch(caches.pools, poolsIn, relevant),
      watch(caches.quotas, poolsIn, relevant),
      watch(caches.templates, poolsIn),
      sandboxes,
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
    refresh: (request, signal) => reconciler.refresh(request, signal),
  };
}
