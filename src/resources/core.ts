import type { CoreV1Event, V1Lease, V1Namespace, V1PersistentVolumeClaim, V1Pod } from '@kubernetes/client-node';
import type { KubeObject, ResourceDefinition, Wire } from './object.ts';

type Core<T> = KubeObject & Wire<Omit<T, 'apiVersion' | 'kind' | 'metadata'>>;

export type Pod = Core<V1Pod>;
export type PersistentVolumeClaim = Core<V1PersistentVolumeClaim>;
export type KubeEvent = Core<CoreV1Event>;
export type Lease = Core<V1Lease>;
export type Namespace = Core<V1Namespace>;

export const pods: ResourceDefinition<Pod> = { group: '', version: 'v1', kind: 'Pod', plural: 'pods', namespaced: true };

export const persistentVolumeClaims: ResourceDefinition<PersistentVolumeClaim> = {
  group: '',
  version: 'v1',
  kind: 'PersistentVolumeClaim',
  plural: 'persistentvolumeclaims',
  namespaced: true,
};

export const kubeEvents: ResourceDefinition<KubeEvent> = { group: '', version: 'v1', kind: 'Event', plural: 'events', namespaced: true };

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
