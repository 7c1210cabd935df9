import type { WatchedCaches } from '../caches.ts';
import {
  handle,
  observe,
  requestOf,
  watch,
  type ControllerSpec,
  type EventSource,
  workers,
} from '../controller-spec.ts';
import { quotaStatusDelayMs, type AdmissionCache } from './cache.ts';
import type { QuotaStatusReconciler } from './quota-status.ts';
import type { AdmissionReads } from './reads.ts';
import type { AdmissionReconciler } from './reconcile.ts';

export interface AdmissionControllersOptions {
  readonly caches: Pick<
    WatchedCaches,
    'sandboxes' | 'conversations' | 'templates' | 'quotas' | 'pods'
  >;
  /** Decides which sandboxes have a slot. A request names a namespace. */
  readonly admission: Pick<AdmissionReconciler, 'reconcile'>;
  readonly cache: AdmissionCache;
  /** Reads from the API server what no watch reports. */
  readonly reads: Pick<AdmissionReads, 'read' | 'podDeleted'>;
  readonly quotas: Pick<QuotaStatusReconciler, 'reconcile'>;
  /** Requests that the cache enqueues for each of the three controllers. */
  readonly requested: Readonly<Record<'admission' | 'lookup' | 'quota', EventSource>>;
}

/** Back-off of failed reads. No decision waits for a read. */
const lookupBackoff = { baseMs: 500, capMs: 10_000, jitter: 0.1 };

export const admissionControllers = ({
  caches,
  admission,
  cache,
  reads,
  quotas,
  requested,
}: AdmissionControllersOptions): readonly ControllerSpec[] => [
  {
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
      // Sandboxes are the last source, because each change of another object classifies them again.
      observe(
        caches.sandboxes,
        (sandbox) => cache.observe(sandbox),
        (sandbox) => cache.forget(sandbox),
      ),
      requested.admission,
    ],
    reconcile: (request, signal) => admission.reconcile(request, signal),
  },
  {
    name: 'lookup',
    workers: workers.lookup,
    backoff: lookupBackoff,
    sources: [requested.lookup],
    reconcile: (request, signal) => reads.read(request, signal),
  },
  {
    name: 'quota',
    workers: workers.quota,
    sources: [
      watch(caches.quotas, (quota) => [requestOf(quota)], { delayMs: quotaStatusDelayMs }),
      requested.quota,
    ],
    reconcile: (request, signal) => quotas.reconcile(request, signal),
  },
];
