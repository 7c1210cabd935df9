import type {
  CoreV1Event,
  V1ConfigMap,
  V1Lease,
  V1Namespace,
  V1Node,
  V1PersistentVolumeClaim,
  V1Pod,
  V1Secret,
} from '@kubernetes/client-node';
import type { KubeObject, ResourceDefinition, Wire } from './object.ts';

type Core<T> = KubeObject & Wire<Omit<T, 'apiVersion' | 'kind' | 'metadata'>>;

export type Pod = Core<V1Pod>;
export type Container = NonNullable<Pod['spec']>['containers'][number];
export type PersistentVolumeClaim = Core<V1PersistentVolumeClaim>;
export type KubeEvent = Core<CoreV1Event>;
export type Lease = Core<V1Lease>;
export type Namespace = Core<V1Namespace>;
export type Node = Core<V1Node>;
export type Secret = Core<V1Secret>;
export type ConfigMap = Core<V1ConfigMap>;

export const pods: ResourceDefinition<Pod> = {
  group: '',
  version: 'v1',
  kind: 'Pod',
  plural: 'pods',
  namespaced: true,
};

export const persistentVolumeClaims: ResourceDefinition<PersistentVolumeClaim> = {
  group: '',
  version: 'v1',
  kind: 'PersistentVolumeClaim',
  plural: 'persistentvolumeclaims',
  namespaced: true,
};

export const kubeEvents: ResourceDefinition<KubeEvent> = {
  group: '',
  version: 'v1',
  kind: 'Event',
  plural: 'events',
  namespaced: true,
};

export const leases: ResourceDefinition<Lease> = {
  group: 'coordination.k8s.io',
  version: 'v1',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
};

export const namespaces: ResourceDefinition<Namespace> = {
  group: '',
  version: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  namespaced: false,
};

export const nodes: ResourceDefinition<Node> = {
  group: '',
  version: 'v1',
  kind: 'Node',
  plural: 'nodes',
  namespaced: false,
};

export const secrets: ResourceDefinition<Secret> = {
  group: '',
  version: 'v1',
  kind: 'Secret',
  plural: 'secrets',
  namespaced: true,
};

export const configMaps: ResourceDefinition<ConfigMap> = {
  group: '',
  version: 'v1',
  kind: 'ConfigMap',
  plural: 'configmaps',
  namespaced: true,
};
