import type { Json, JsonArray, JsonObject } from '../json/json.ts';

// The shapes are type aliases, because TypeScript does not assign an interface to JsonObject.

export type OwnerReference = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
};

/** Metadata after validation and defaulting. */
export type Meta = {
  readonly name: string;
  readonly generateName?: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation?: number;
  readonly creationTimestamp: string;
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly finalizers?: readonly string[];
  readonly managedFields?: JsonArray;
};

/** Metadata that an update of a client does not change. */
export const serverFields = [
  'name',
  'namespace',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'managedFields',
  'generateName',
] as const;

/** A stored object of any kind. */
export type ApiObject = JsonObject & {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Meta;
};

/** Returns a time in RFC 3339 with whole seconds, as Kubernetes writes timestamps. */
export const timestampOf = (nowMs: number): string =>
  `${new Date(nowMs).toISOString().slice(0, 19)}Z`;

export const withMeta = (
  object: ApiObject,
  changes: { readonly [K in keyof Meta]?: Meta[K] | undefined },
): ApiObject => {
  const metadata: Record<string, Json | undefined> = { ...object.metadata, ...changes };
  for (const [key, value] of Object.entries(metadata))
    if (value === undefined) Reflect.deleteProperty(metadata, key);
  return { ...object, metadata: metadata as Meta };
};
