import type { V1ObjectMeta } from '@kubernetes/client-node';

/** A client-node model as it is on the wire: timestamps are strings, and nothing may be changed in place. */
export type Wire<T> = T extends Date ? string : T extends object ? { readonly [K in keyof T]: Wire<T[K]> } : T;

/** Metadata of an object that an API server has stored; before that, `NewObject` is its type. */
export interface ObjectMeta extends Wire<Omit<V1ObjectMeta, 'name' | 'uid' | 'resourceVersion' | 'creationTimestamp'>> {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** RFC 3339, whole seconds. */
  readonly creationTimestamp: string;
}

/** The metadata that caches hold, with the labels and annotations of this group alone: see `cachedMetadata`. */
export type CachedMetadata = Pick<
  ObjectMeta,
  | 'name'
  | 'namespace'
  | 'uid'
  | 'resourceVersion'
  | 'generation'
  | 'creationTimestamp'
  | 'deletionTimestamp'
  | 'labels'
  | 'annotations'
  | 'ownerReferences'
>;

export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta;
}

/** An object to be created: the server fills in what is missing. Either `name` or `generateName` is needed. */
export type NewObject<T extends KubeObject> = Omit<T, 'metadata' | 'status'> & {
  readonly metadata: Partial<ObjectMeta>;
  readonly status?: unknown;
};

/** What a client has to know about a kind. */
export interface ResourceDefinition<T extends KubeObject> {
  /** '' for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
  /** Says whether an object has the shape of T. Absent for kinds whose server is trusted to send them right. */
  readonly accepts?: (candidate: unknown) => candidate is T;
}

export const apiVersionOf = (resource: Pick<ResourceDefinition<KubeObject>, 'group' | 'version'>): string =>
  resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

export const ownerReferenceTo = (owner: KubeObject, { controller }: { readonly controller: boolean }): OwnerReference => ({
  apiVersion: owner.apiVersion,
  kind: owner.kind,
  name: owner.metadata.name,
  uid: owner.metadata.uid,
  ...(controller ? { controller: true } : {}),
});

export const isOwnedBy = (object: KubeObject, owner: KubeObject): boolean =>
  object.metadata.ownerReferences?.some(({ uid }) => uid === owner.metadata.uid) ?? false;

/** Of two versions of one object. They are decimal numbers without leading zeros, and may be larger than a double can tell apart. */
export const isNewerVersion = (one: KubeObject, other: KubeObject): boolean => {
  const [version, before] = [one.metadata.resourceVersion, other.metadata.resourceVersion];
  return version.length === before.length ? version > before : version.length > before.length;
};
