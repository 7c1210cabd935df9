import { requestOf, watch, type ControllerSpec } from './event-source.ts';
import type { OperatorContext } from './operator-context.ts';
import { TemplateReconciler } from './template/reconcile.ts';
import { workers } from './workers.ts';

/** Writes whether the API server accepts a pod and a volume of a template. */
export function templateController({
  client,
  stores,
  clock,
  caches,
}: OperatorContext): ControllerSpec {
  const reconciler = new TemplateReconciler({ client, stores, clock });
  return {
    name: 'template',
    workers: workers.template,
    sources: [watch(caches.templates, (template) => [requestOf(template)])],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
  };
}
