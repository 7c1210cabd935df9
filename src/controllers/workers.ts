import type { KubeObject } from '@conversation-operator/kube/object';

/**
 * Reconciles at once, by controller. Those of conversations and sandboxes call agents, which may take their time, so there are many:
 * calls to the API server are bounded by its client, and calls to agents by lanes of their own.
 */
export const workers = {
  conversation: 128,
  status: 512,
  sandbox: 512,
  admission: 1,
  lookup: 8,
  quota: 1,
  template: 2,
  retention: 4,
} as const;

/** One owner has a quarter of the workers at most, so that whatever its agents do, others' work goes on. */
export const maxPerOwner = (name: 'conversation' | 'status' | 'sandbox'): number => workers[name] / 4;

/** The share of the workers that work of an object belongs to. What is gone, or has not been seen yet, is nobody's. */
export const ownerShare = (
  object: { readonly metadata: { readonly namespace: string }; readonly spec: { readonly owner: string } } | undefined,
): string => (object === undefined ? '' : `${object.metadata.namespace}/${object.spec.owner}`);

/** The share of an object of any kind: objects that no owner has share one within their namespace. */
export const objectShare = ({ metadata: { namespace = '' }, spec }: KubeObject & { readonly spec?: { readonly owner?: string } }): string =>
  `${namespace}/${spec?.owner ?? ''}`;
