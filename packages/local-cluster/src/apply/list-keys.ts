import { partOf, type Schema } from '../schema/structural-schema.ts';

/** Identity of list items: by keys, by value, or none. */
export type ListIdentity =
  | { readonly kind: 'map'; readonly keys: readonly string[] }
  | { readonly kind: 'set' }
  | { readonly kind: 'atomic' };

const atomic: ListIdentity = { kind: 'atomic' };

/**
 * Keys of the items of lists that are not atomic in the OpenAPI of Kubernetes, for the built-in
 * kinds and metadata. The keys depend only on the name of the field, except for `ports`.
 */
export const builtinListKeys: Readonly<Record<string, readonly string[]>> = {
  containers: ['name'],
  initContainers: ['name'],
  ephemeralContainers: ['name'],
  env: ['name'],
  volumes: ['name'],
  volumeMounts: ['mountPath'],
  volumeDevices: ['devicePath'],
  conditions: ['type'],
  ownerReferences: ['uid'],
  imagePullSecrets: ['name'],
  secrets: ['name'],
  hostAliases: ['ip'],
  podIPs: ['ip'],
  addresses: ['type'],
  topologySpreadConstraints: ['topologyKey', 'whenUnsatisfiable'],
  resourceClaims: ['name'],
};

/** A position in an object: its schema, and whether a built-in type defines it. */
export interface Place {
  readonly schema: Schema | undefined;
  readonly builtin: boolean;
  readonly field: string;
}

export function childPlace(place: Place, key: string): Place {
  const root = place.field === '';
  const schema = partOf(place.schema, key);
  return { schema, builtin: place.builtin || (root && key === 'metadata'), field: key };
}

export const itemPlace = (place: Place): Place => ({ ...place, schema: place.schema?.items });

export function identityAt({ schema, builtin, field }: Place): ListIdentity {
  if (builtin) {
    if (field === 'finalizers') return { kind: 'set' };
    const isContainer = schema?.items?.properties?.['containerPort'] !== undefined;
    const keys =
      field === 'ports'
        ? [isContainer ? 'containerPort' : 'port', 'protocol']
        : builtinListKeys[field];
    return keys === undefined ? atomic : { kind: 'map', keys };
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
