import type { KubeObject, ResourceDefinition } from '../src/object.ts';

/** A kind for tests; `color` is what it is indexed by, `valid` whether its schema takes it. */
export interface Thing extends KubeObject {
  readonly spec: { readonly colors: readonly string[]; readonly valid: boolean };
}

export const things: ResourceDefinition<Thing> = {
  group: 'example.com',
  version: 'v1',
  kind: 'Thing',
  plural: 'things',
  namespaced: true,
  accepts: (candidate): candidate is Thing => (candidate as Thing).spec.valid,
};

interface ThingOptions {
  readonly name?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly colors?: readonly string[];
  readonly valid?: boolean;
}

export function aThing(options: ThingOptions = {}): Thing {
  const {
    name = 'one',
    namespace = 'default',
    uid = `uid-${name}`,
    resourceVersion = '1',
    colors = [],
    valid = true,
  } = options;
  return {
    apiVersion: 'example.com/v1',
    kind: 'Thing',
    metadata: { name, namespace, uid, resourceVersion, creationTimestamp: '2030-01-01T00:00:00Z' },
    spec: { colors, valid },
  };
}
