import type { Request } from '@conversation-operator/kube/controller';
import type { KubeObject } from '@conversation-operator/kube/object';
import { sandboxLabel } from '../../resources/sandbox.ts';
import { byTemplate } from '../caches.ts';
import { handle, requestOf, watch, type ControllerSpec } from '../event-source.ts';
import type { OperatorContext } from '../operator-context.ts';
import { SandboxReconciler } from './reconcile.ts';
import { maxPerOwner, ownerShare, workers } from '../workers.ts';

/** The sandbox that a pod or a claim belongs to. */
export function sandboxOf({
  metadata: { namespace = '', labels },
}: KubeObject): readonly Request[] {
  const name = labels?.[sandboxLabel];
  return name === undefined ? [] : [{ namespace, name }];
}

/** Creates, connects, stops and replaces the pods and volumes of sandboxes. */
export function sandboxController(context: OperatorContext): ControllerSpec {
  const { caches, stores, channels, unresponsiveAgents } = context;
  const reconciler = new SandboxReconciler(context);
  return {
    name: 'sandbox',
    workers: workers.sandbox,
    shareOf: ({ namespace, name }) => ownerShare(stores.sandboxes.get(namespace, name)),
    maxPerShare: maxPerOwner('sandbox'),
    sources: [
      watch(caches.sandboxes, (sandbox) => [requestOf(sandbox)]),
      watch(caches.pods, sandboxOf),
      watch(caches.claims, sandboxOf),
      watch(caches.templates, ({ metadata: { namespace, name } }) =>
        stores.sandboxes.byIndex(byTemplate, `${namespace}/${name}`).map(requestOf),
      ),
      channels.unresponsive.source,
      handle(caches.sandboxes, {
        deleted: ({ metadata: { uid } }) => unresponsiveAgents.forget(uid),
      }),
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
    refresh: (request, signal) => reconciler.refresh(request, signal),
  };
}
