import type { KubeObject } from '@conversation-operator/kube/object';

/**
 * Maximum number of concurrent reconciles of each controller. Reconciles of conversations and
 * sandboxes call agents, which may answer slowly, so their numbers are high: the client of the API
 * server bounds calls to it, and bulkheads bound calls to agents. A worker of admission has one
 * namespace at a time, for a bounded time.
 */
export const workers = {
  conversation: 128,
  status: 512,
  sandbox: 512,
  admission: 16,
  lookup: 8,
  quota: 1,
  template: 2,
  pool: 4,
  retention: 4,
  archive: 8,
  'archive-sweep': 1,
  disruption: 8,
} as const;

/**
 * Maximum workers of one owner: a quarter, so that slow agents of one owner do not stop the work of
 * the others.
 */
export const maxPerOwner = (
  name: 'conversation' | 'status' | 'sandbox' | 'archive' | 'disruption',
): number => workers[name] / 4;

/**
 * The share of the workers that an object belongs to. An object that is deleted or not cached yet
 * belongs to no owner.
 */
export const ownerShare = (
  object:
    | {
        readonly metadata: { readonly namespace: string };
        readonly spec: { readonly owner: string };
      }
    | undefined,
): string => (object === undefined ? '' : `${object.metadata.namespace}/${object.spec.owner}`);

/**
 * The share of an object of any kind: objects without an owner have a common share within their
 * namespace.
 */
export const objectShare = ({
  metadata: { namespace = '' },
  spec,
}: KubeObject & { readonly spec?: { readonly owner?: string } }): string =>
  `${namespace}/${spec?.owner ?? ''}`;
