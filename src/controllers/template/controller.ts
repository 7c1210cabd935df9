import { requestOf, watch, type ControllerSpec } from '../event-source.ts';
import type { TemplateReconciler } from './reconcile.ts';
import type { WatchedCaches } from '../caches.ts';
import { workers } from '../workers.ts';

export interface TemplateControllerOptions {
  readonly caches: Pick<WatchedCaches, 'templates'>;
  readonly reconciler: Pick<TemplateReconciler, 'reconcile'>;
}

/** Writes whether the API server accepts a pod and a volume of a template. */
export function templateController({
  caches,
  reconciler,
}: TemplateControllerOptions): ControllerSpec {
  return {
    name: 'template',
    workers: workers.template,
    sources: [watch(caches.templates, (template) => [requestOf(template)])],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
  };
}
