import type { V1ObjectMeta } from '@kubernetes/client-node';

/** JSON form of a type of client-node: timestamps are strings, and every field is read-only. */
export type Wire<T> = T extends Date
  ? string
  : T extends object
    ? { readonly [K in keyof T]: Wire<T[K]> }
    : T;

/** Returns a Kubernetes Time: RFC 3339 in whole seconds. */
export const timestampOf = (nowMs: number): string =>
  `${new Date(nowMs).toISOString().slice(0, 19)}Z`;

/** Metadata of a stored object. For an object that is not stored yet, see `NewObject`. */
export interface ObjectMeta extends Wire<
  Omit<V1ObjectMeta, 'name' | 'uid' | 'resourceVersion' | 'creationTimestamp'>
> {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly creationTimestamp: string;
}

/** Cached metadata. `cachedMetadata` drops the labels and annotations of other API groups. */
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

/** An object to create, with a `name` or a `generateName`. The server sets the other metadata. */
export type NewObject<T extends KubeObject> = Omit<T, 'metadata' | 'status'> & {
  readonly metadata: Partial<ObjectMeta>;
  readonly status?: unknown;
};

export interface ResourceDefinition<T extends KubeObject> {
  /** API group; '' for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
  /** Whether an object has the type T. Absent: every object of the server is accepted. */
  readonly accepts?: (candidate: unknown) => candidate is T;
}

export const apiVersionOf = (
  resource: Pick<ResourceDefinition<KubeObject>, 'group' | 'version'>,
): string => (resource.group === '' ? resource.version : `${resource.group}/${resource.version}`);

/** A type alias, because TypeScript assigns no interface to a type with an index signature. */
export type OwnerReference = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
};

export const ownerReferenceTo = (
  owner: KubeObject,
  { controller }: { readonly controller: boolean },
): OwnerReference => ({
  apiVersion: owner.apiVersion,
  kind: owner.kind,
  name: owner.metadata.name,
  uid: owner.metadata.uid,
  ...(controller ? { controller: true } : {}),
});

export const isOwnedBy = (object: KubeObject, owner: KubeObject): boolean =>
  object.metadata.ownerReferences?.some(({ uid }) => uid === owner.metadata.uid) ?? false;

/** Whether no deletion has been requested. A deleted object may still exist for minutes. */
export const isLive = ({ metadata }: Pick<KubeObject, 'metadata'>): boolean =>
  metadata.deletionTimestamp === undefined;

type Versioned = { readonly metadata: Pick<ObjectMeta, 'resourceVersion'> };

/** Whether `one` is newer. A resourceVersion may exceed the precision of a JavaScript number. */
export const isNewerVersion = (one: Versioned, other: Versioned): boolean => {
  const [version, before] = [one.metadata.resourceVersion, other.metadata.resourceVersion];
  return version.length === before.length ? version > before : version.length > before.length;
};

/** Formats a duration as kubectl (apimachinery `duration.HumanDuration`): 45s, 3m12s, 2y30d. */
export function humanDuration(ms: number): string {
  const seconds = Math.trunc(ms / 1000);
  if (seconds < -1) return '<invalid>';
  if (seconds < 0) return '0s';
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.trunc(seconds / 60);
  if (minutes < 10) return withRest(minutes, 'm', seconds % 60, 's');
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.trunc(minutes / 60);
  if (hours < 8) return withRest(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  const days = Math.trunc(hours / 24);
  if (hours < 192) return withRest(days, 'd', hours % 24, 'h');
  if (hours < 24 * 365 * 2) return `${days}d`;
  const years = Math.trunc(days / 365);
  return hours < 24 * 365 * 8 ? withRest(years, 'y', days % 365, 'd') : `${years}y`;
}

const withRest = (whole: number, unit: string, rest: number, restUnit: string): string =>
  rest === 0 ? `${whole}${unit}` : `${whole}${unit}${rest}${restUnit}`;

/** Formats the age of a timestamp; `<unknown>` without a timestamp. */
export function ageOf(timestamp: unknown, nowMs: number): string {
  const time = typeof timestamp === 'string' ? Date.parse(timestamp) : Number.NaN;
  return Number.isNaN(time) ? '<unknown>' : humanDuration(nowMs - time);
}
