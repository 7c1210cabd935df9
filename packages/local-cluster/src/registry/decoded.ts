import type { KubeObject } from '@conversation-operator/kube/object';
import type { Meta } from '../api/api-object.ts';

/** A value whose fields have the types of T and may all be absent. */
export type Sparse<T> = T extends readonly (infer Item)[]
  ? readonly Sparse<Item>[]
  : T extends object
    ? { readonly [K in keyof T]?: Sparse<T[K]> }
    : T;

/**
 * An object of a built-in kind after its schema was checked: each field has its type, and fields
 * that Kubernetes requires may be absent, because the validation of the kind reports those.
 */
export type Decoded<T extends KubeObject> = Pick<KubeObject, 'apiVersion' | 'kind'> &
  Sparse<Omit<T, keyof KubeObject>> & { readonly metadata: Meta };
