import type { Json, JsonArray, JsonObject } from '../json/json.ts';

// Type aliases, not interfaces: only these are assignable to JsonObject.

export type OwnerReference = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
};

/** Metadata after it has been validated and filled in. */
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

/** An object of any kind, as it is stored. */
export type ApiObject = JsonObject & { readonly apiVersion: string; readonly kind: string; readonly metadata: Meta };

/** RFC 3339 with whole seconds, as Kubernetes writes its timestamps. */
export const timestampOf = (nowMs: number): string => `${new Date(nowMs).toISOString().slice(0, 19)}Z`;

export const withMeta = (object: ApiObject, changes: { readonly [K in keyof Meta]?: Meta[K] | undefined }): ApiObject => {
  const metadata: Record<string, Json | undefined> = { ...object.metadata, ...changes };
  for (const [key, value] of Object.entries(metadata)) if (value === undefined) Reflect.deleteProperty(metadata, key);
  return { ...object, metadata: metadata as Meta };
};
