import { dashedUuid } from '@conversation-operator/base/uuid';
import type { OwnerReference } from '@conversation-operator/kube/object';
import type { Json, JsonArray, JsonObject } from '../json/json.ts';

// The types below are aliases, because TypeScript does not assign an interface to JsonObject.

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

/** Metadata that a client's update does not change. */
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

export const namespacesKey = '/namespaces';

export type ApiObject = JsonObject & {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Meta;
};

/** Returns the object with changed metadata. An undefined value or empty list removes a field. */
export const withMeta = (
  object: ApiObject,
  changes: { readonly [K in keyof Meta]?: Meta[K] | undefined },
): ApiObject => {
  const metadata: Record<string, Json | undefined> = { ...object.metadata, ...changes };
  for (const [key, value] of Object.entries(metadata))
    if (value === undefined || (Array.isArray(value) && value.length === 0))
      Reflect.deleteProperty(metadata, key);
  return { ...object, metadata: metadata as Meta };
};

export const withoutFinalizer = (object: ApiObject, finalizer: string): ApiObject =>
  withMeta(object, {
    finalizers: object.metadata.finalizers?.filter((name) => name !== finalizer),
  });

export const withStatus = (object: ApiObject, status: Json | undefined): ApiObject => {
  if (status !== undefined) return { ...object, status };
  const { status: _, ...rest } = object;
  return rest;
};

const alphabet = 'bcdfghjklmnpqrstvwxz2456789';

/** Suffix for generateName: five characters of an alphabet without vowels, as in Kubernetes. */
export const nameSuffix = (random: () => number): string =>
  Array.from({ length: 5 }, () => alphabet[Math.floor(random() * alphabet.length)] ?? 'x').join('');

/** Returns a version 4 UUID. Simulations whose `random` has the same seed get the same UUIDs. */
export function randomUuid(random: () => number): string {
  const digits = Array.from({ length: 32 }, () => Math.floor(random() * 16).toString(16));
  digits[12] = '4';
  digits[16] = (8 + Math.floor(random() * 4)).toString(16);
  return dashedUuid(digits.join(''));
}
