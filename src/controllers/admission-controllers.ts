import { QuotaStatusReconciler } from './admission/quota-status.ts';
import { AdmissionReconciler } from './admission/reconcile.ts';
import { handle, observing, requestOf, watch, type ControllerSpec } from './event-source.ts';
import { quotaStatusDelayMs, type OperatorContext } from './operator-context.ts';
import { workers } from './workers.ts';

/** Delay between reads that fail; no decision waits for them. */
const lookupBackoff = { baseMs: 500, capMs: 10_000, jitter: 0.1 };

/** Decides which sandboxes have a slot. Its requests name a namespace. */
export function admissionController({
  caches,
  channels,
  admission: cache,
  ...context
}: OperatorContext): ControllerSpec {
  const reconciler = new AdmissionReconciler({ ...context, cache });
  return {
    name: 'admission',
    workers: workers.admission,
    sources: [
      handle(
        caches.quotas,
        observing(
          (quota) => cache.observeQuota(quota),
          (quota) => cache.forgetQuota(quota),
        ),
      ),
      handle(
        caches.sandboxes,
        observing(
          (sandbox) => cache.observe(sandbox),
          (sandbox) => cache.forget(sandbox),
        ),
      ),
      handle(
        caches.conversations,
        observing(
          (conversation) => cache.observeConversation(conversation),
          (conversation) => cache.forgetConversation(conversation),
        ),
      ),
      handle(caches.pods, { deleted: (pod) => cache.podDeleted(pod) }),
      handle(
        caches.templates,
        observing(
          (template) => cache.observeTemplate(template),
          (template) => cache.observeTemplate(template),
        ),
      ),
      channels.admission.source,
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
  };
}

/** Reads from the API server on which the admission cache depends, and which no watch reports. */
export const lookupController = ({
  channels,
  admission: cache,
}: OperatorContext): ControllerSpec => ({
  name: 'lookup',
  workers: workers.lookup,
  backoff: lookupBackoff,
  sources: [channels.lookup.source],
  reconcile: (request, signal) => cache.read(request, signal),
});

/** Writes the status of quotas. */
export function quotaController({
  client,
  stores,
  clock,
  caches,
  channels,
  admission: cache,
}: OperatorContext): ControllerSpec {
  const snapshot = (namespace: string) => cache.snapshot(namespace);
  const reconciler = new QuotaStatusReconciler({
    client,
    stores,
    clock,
    snapshot,
    limits: cache.limits,
    now: () => cache.now(),
  });
  return {
    name: 'quota',
    workers: workers.quota,
    sources: [
      watch(caches.quotas, (quota) => [requestOf(quota)], { delayMs: quotaStatusDelayMs }),
      channels.quota.source,
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
  };
}
