import type { Request } from '@conversation-operator/kube/controller';
import type { Sandbox } from '../resources/sandbox.ts';
import { isSpare } from '../resources/sandbox.ts';
import { byPoolTemplate } from './caches.ts';
import { requestOf, watch, type ControllerSpec, type EventSource } from './event-source.ts';
import type { OperatorContext } from './operator-context.ts';
import { PoolReconciler } from './pool/reconcile.ts';
import { workers } from './workers.ts';

/** Keeps the spares of pools. */
export function poolController(context: OperatorContext): ControllerSpec {
  const { caches, stores } = context;
  const reconciler = new PoolReconciler(context);
  const poolOf = ({ metadata: { namespace }, spec: { poolName } }: Sandbox): readonly Request[] =>
    poolName === undefined ? [] : [{ namespace, name: poolName }];
  /** A spare that changes or goes; and one that a start has claimed, which a new one replaces. */
  const spares: EventSource = (queue) => {
    const enqueue = (sandbox: Sandbox): void => {
      for (const request of poolOf(sandbox)) queue.enqueueAfter(request, 0);
    };
    const changed = (sandbox: Sandbox, old?: Sandbox): void => {
      if (!isSpare(sandbox) && (old === undefined || !isSpare(old))) return;
      const pool = isSpare(sandbox)
        ? undefined
        : stores.pools.get(sandbox.metadata.namespace, sandbox.spec.poolName ?? '');
      if (pool !== undefined) reconciler.claimed(pool);
      enqueue(sandbox);
    };
    return caches.sandboxes.addHandler({
      added: (sandbox) => changed(sandbox),
      updated: changed,
      deleted: (sandbox) => changed(sandbox),
    });
  };
  return {
    name: 'pool',
    workers: workers.pool,
    sources: [
      watch(caches.pools, (pool) => [requestOf(pool)]),
      spares,
      watch(caches.templates, ({ metadata: { namespace, name } }) =>
        stores.pools.byIndex(byPoolTemplate, `${namespace}/${name}`).map(requestOf),
      ),
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
    refresh: (request, signal) => reconciler.refresh(request, signal),
  };
}
