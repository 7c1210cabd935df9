import type { WatchedCaches } from '../caches.ts';
import { observe, type ControllerSpec, type EventSource } from '../event-source.ts';
import type { RetentionReconciler } from './reconcile.ts';
import { workers } from '../workers.ts';

export interface RetentionControllerOptions {
  readonly caches: Pick<WatchedCaches, 'conversations' | 'sandboxes' | 'templates'>;
  readonly reconciler: RetentionReconciler;
  /** Objects that the reconciler itself wants to see again. */
  readonly requested: EventSource;
}

/** Deletes conversations and sandboxes after the times that their templates set. */
export function retentionController(options: RetentionControllerOptions): ControllerSpec {
  const { caches, reconciler, requested } = options;
  return {
    name: 'retention',
    workers: workers.retention,
    sources: [
      observe(
        caches.conversations,
        (conversation) => reconciler.observeConversation(conversation),
        (conversation) => reconciler.forgetConversation(conversation),
      ),
      observe(
        caches.sandboxes,
        (sandbox) => reconciler.observeSandbox(sandbox),
        (sandbox) => reconciler.forgetSandbox(sandbox),
      ),
      observe(caches.templates, (template, old) => reconciler.observeTemplate(template, old)),
      requested,
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
  };
}
