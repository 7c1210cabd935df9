import type { Schema } from '../schema/structural-schema.ts';
import { valuesOf } from '../schema/structural-schema.ts';

/** Identity of list items: by keys, by value, or none. */
export type ListIdentity =
  | { readonly kind: 'map'; readonly keys: readonly string[] }
  | { readonly kind: 'set' }
  | { readonly kind: 'atomic' };

const atomic: ListIdentity = { kind: 'atomic' };

/** Lists of the built-in kinds and of metadata that are not atomic in the OpenAPI of Kubernetes. */
const builtinLists: Readonly<Record<string, ListIdentity>> = {
  containers: { kind: 'map', keys: ['name'] },
  initContainers: { kind: 'map', keys: ['name'] },
  ephemeralContainers: { kind: 'map', keys: ['name'] },
  env: { kind: 'map', keys: ['name'] },
  volumes: { kind: 'map', keys: ['name'] },
  volumeMounts: { kind: 'map', keys: ['mountPath'] },
  volumeDevices: { kind: 'map', keys: ['devicePath'] },
  conditions: { kind: 'map', keys: ['type'] },
  ownerReferences: { kind: 'map', keys: ['uid'] },
  imagePullSecrets: { kind: 'map', keys: ['name'] },
  hostAliases: { kind: 'map', keys: ['ip'] },
  topologySpreadConstraints: { kind: 'map', keys: ['topologyKey', 'whenUnsatisfiable'] },
  finalizers: { kind: 'set' },
};
const containerPorts: ListIdentity = { kind: 'map', keys: ['containerPort', 'protocol'] };
const servicePorts: ListIdentity = { kind: 'map', keys: ['port', 'protocol'] };

/** A position in an object: its schema, and whether a built-in type defines it. */
export interface Place {
  readonly schema: Schema | undefined;
  readonly builtin: boolean;
  readonly field: string;
}

export function childPlace(place: Place, key: string): Place {
  const root = place.field === '';
  const schema = place.schema?.properties?.[key] ?? valuesOf(place.schema);
  return { schema, builtin: place.builtin || (root && key === 'metadata'), field: key };
}

export const itemPlace = (place: Place): Place => ({ ...place, schema: place.schema?.items });

export function identityAt({ schema, builtin, field }: Place): ListIdentity {
  if (builtin) {
    if (field === 'ports')
      return schema?.items?.properties?.['containerPort'] === undefined
        ? servicePorts
        : containerPorts;
    return builtinLists[field] ?? atomic;
  }
  const type = schema?.['x-kubernetes-list-type'];
  if (type === 'set') return { kind: 'set' };
  return type === 'map'
    ? { kind: 'map', keys: schema?.['x-kubernetes-list-map-keys'] ?? [] }
    : atomic;
}

/** Returns whether a map is set as a whole, such as a selector. */
export const isAtomicMap = ({ schema }: Place): boolean =>
  schema?.['x-kubernetes-map-type'] === 'atomic';

/**
 * Returns the value of an absent key of an item: the default of its schema, or TCP for the protocol
 * of a port.
 */
export const keyDefault = (place: Place, key: string) =>
  itemPlace(place).schema?.properties?.[key]?.default ??
  (place.builtin && key === 'protocol' ? 'TCP' : undefined);
