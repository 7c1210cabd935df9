import { requestOf, watch, type ControllerSpec } from '../event-source.ts';
import type { OperatorContext } from '../operator-context.ts';
import { TemplateReconciler } from './reconcile.ts';
import { workers } from '../workers.ts';

/** Writes whether the API server accepts a pod and a volume of a template. */
export function templateController(context: OperatorContext): ControllerSpec {
  const reconciler = new TemplateReconciler(context);
  return {
    name: 'template',
    workers: workers.template,
    sources: [watch(context.caches.templates, (template) => [requestOf(template)])],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
  };
}
