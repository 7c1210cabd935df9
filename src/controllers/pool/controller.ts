import type { Request } from '@conversation-operator/kube/controller';
import type { KubeObject } from '@conversation-operator/kube/object';
import { isSpare, type Sandbox } from '../../resources/sandbox.ts';
import { byNamespace } from '../caches.ts';
import { requestOf, watch, type ControllerSpec, type EventSource } from '../event-source.ts';
import type { OperatorContext } from '../operator-context.ts';
import { PoolReconciler } from './reconcile.ts';
import { workers } from '../workers.ts';

const isEdited = ({ metadata }: KubeObject, { metadata: old }: KubeObject): boolean =>
  metadata.generation !== old.generation || metadata.deletionTimestamp !== old.deletionTimestamp;

/** Keeps the spares of pools. */
export function poolController(context: OperatorContext): ControllerSpec {
  const { caches, stores, admission } = context;
  const reconciler = new PoolReconciler(context);
  const poolsIn = ({ metadata: { namespace = '' } }: KubeObject): readonly Request[] =>
    stores.pools.byIndex(byNamespace, namespace).map(requestOf);
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
        const pool = stores.pools.get(sandbox.metadata.namespace, poolName);
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
