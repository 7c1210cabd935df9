import type { Request } from '@conversation-operator/kube/controller';
import type { KubeObject } from '@conversation-operator/kube/object';
import { sandboxLabel } from '../../resources/sandbox.ts';
import type { UnresponsiveAgents } from '../agent-calls/unresponsive-agents.ts';
import { byTemplate, type WatchedCaches } from '../caches.ts';
import {
  handle,
  requestOf,
  watch,
  type ControllerSpec,
  type EventSource,
  maxPerOwner,
  ownerShare,
  workers,
} from '../controller-spec.ts';
import type { SandboxReconciler } from './reconcile.ts';

/** The sandbox that a pod or a claim belongs to. */
export function sandboxOf({
  metadata: { namespace = '', labels },
}: KubeObject): readonly Request[] {
  const name = labels?.[sandboxLabel];
  return name === undefined ? [] : [{ namespace, name }];
}

export interface SandboxControllerOptions {
  readonly caches: Pick<WatchedCaches, 'sandboxes' | 'pods' | 'claims' | 'templates'>;
  readonly reconciler: Pick<SandboxReconciler, 'reconcile' | 'refresh'>;
  readonly unresponsiveAgents: Pick<UnresponsiveAgents, 'forget'>;
  /** Sandboxes whose agent does not answer. */
  readonly unresponsive: EventSource;
}

/** Creates, connects, stops and replaces the pods and volumes of sandboxes. */
export function sandboxController(options: SandboxControllerOptions): ControllerSpec {
  const { caches, reconciler, unresponsiveAgents, unresponsive } = options;
  const sandboxes = caches.sandboxes.store;
  return {
    name: 'sandbox',
    workers: workers.sandbox,
    shareOf: ({ namespace, name }) => ownerShare(sandboxes.get(namespace, name)),
    maxPerShare: maxPerOwner('sandbox'),
    sources: [
      watch(caches.sandboxes, (sandbox) => [requestOf(sandbox)]),
      watch(caches.pods, sandboxOf),
      watch(caches.claims, sandboxOf),
      watch(caches.templates, ({ metadata: { namespace, name } }) =>
        sandboxes.byIndex(byTemplate, `${namespace}/${name}`).map(requestOf),
      ),
      unresponsive,
      handle(caches.sandboxes, {
        deleted: ({ metadata: { uid } }) => unresponsiveAgents.forget(uid),
      }),
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
    refresh: (request, signal) => reconciler.refresh(request, signal),
  };
}
