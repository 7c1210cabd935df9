import { quotaStatusDelayMs } from './cache.ts';
import { QuotaStatusReconciler } from './quota-status.ts';
import { AdmissionReconciler } from './reconcile.ts';
import { handle, observe, requestOf, watch, type ControllerSpec } from '../event-source.ts';
import type { OperatorContext } from '../operator-context.ts';
import { workers } from '../workers.ts';

/** Delay between reads that fail; no decision waits for them. */
const lookupBackoff = { baseMs: 500, capMs: 10_000, jitter: 0.1 };

/** Decides which sandboxes have a slot. Its requests name a namespace. */
export function admissionController(context: OperatorContext): ControllerSpec {
  const { caches, channels, admission: cache, reads } = context;
  const reconciler = new AdmissionReconciler({ ...context, cache });
  return {
    name: 'admission',
    workers: workers.admission,
    sources: [
      observe(
        caches.quotas,
        (quota) => cache.observeQuota(quota),
        (quota) => cache.forgetQuota(quota),
      ),
      observe(
        caches.conversations,
        (conversation) => cache.observeConversation(conversation),
        (conversation) => cache.forgetConversation(conversation),
      ),
      handle(caches.pods, { deleted: (pod) => reads.podDeleted(pod) }),
      observe(caches.templates, (template) => cache.observeTemplate(template)),
      // The last, because each change of another object has its sandboxes classified again.
      observe(
        caches.sandboxes,
        (sandbox) => cache.observe(sandbox),
        (sandbox) => cache.forget(sandbox),
      ),
      channels.admission.source,
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
  };
}

/** Reads from the API server on which the admission cache depends, and which no watch reports. */
export const lookupController = ({ channels, reads }: OperatorContext): ControllerSpec => ({
  name: 'lookup',
  workers: workers.lookup,
  backoff: lookupBackoff,
  sources: [channels.lookup.source],
  reconcile: (request, signal) => reads.read(request, signal),
});

/** Writes the status of quotas. */
export function quotaController(context: OperatorContext): ControllerSpec {
  const { caches, channels, admission: cache } = context;
  const reconciler = new QuotaStatusReconciler({ ...context, cache });
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
