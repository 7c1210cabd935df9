import { observe, type ControllerSpec } from '../event-source.ts';
import type { OperatorContext } from '../operator-context.ts';
import { RetentionReconciler } from './reconcile.ts';
import { workers } from '../workers.ts';

/** Deletes conversations and sandboxes after the times that their templates set. */
export function retentionController(context: OperatorContext): ControllerSpec {
  const { caches, channels, retention: times } = context;
  const reconciler = new RetentionReconciler({
    ...context,
    times,
    enqueue: (request) => channels.retention.enqueue(request),
  });
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
      channels.retention.source,
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
  };
}
