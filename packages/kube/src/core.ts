import type {
  CoreV1Event,
  V1ConfigMap,
  V1CustomResourceDefinition,
  V1Lease,
  V1Namespace,
  V1Node,
  V1PersistentVolumeClaim,
  V1Pod,
  V1Secret,
  V1ServiceAccount,
} from '@kubernetes/client-node';
import type { KubeObject, ResourceDefinition, Wire } from './object.ts';

export type Core<T> = KubeObject & Wire<Omit<T, 'apiVersion' | 'kind' | 'metadata'>>;

export type Pod = Core<V1Pod>;
export type Container = NonNullable<Pod['spec']>['containers'][number];
export type PersistentVolumeClaim = Core<V1PersistentVolumeClaim>;
export type KubeEvent = Core<CoreV1Event>;
export type Lease = Core<V1Lease>;
export type Namespace = Core<V1Namespace>;
export type Node = Core<V1Node>;
export type Secret = Core<V1Secret>;
export type ConfigMap = Core<V1ConfigMap>;
export type ServiceAccount = Core<V1ServiceAccount>;
export type CustomResourceDefinition = Core<V1CustomResourceDefinition>;

/** Defines a resource. By default, it is namespaced and in the core group, version v1. */
export const core = <T extends KubeObject>(
  kind: string,
  plural: string,
  differences: Partial<ResourceDefinition<T>> = {},
): ResourceDefinition<T> => ({
  group: '',
  version: 'v1',
  kind,
  plural,
  namespaced: true,
  ...differences,
});

export const pods = core<Pod>('Pod', 'pods');
export const persistentVolumeClaims = core<PersistentVolumeClaim>(
  'PersistentVolumeClaim',
  'persistentvolumeclaims',
);
export const kubeEvents = core<KubeEvent>('Event', 'events');
export const leases = core<Lease>('Lease', 'leases', { group: 'coordination.k8s.io' });
export const namespaces = core<Namespace>('Namespace', 'namespaces', { namespaced: false });
export const nodes = core<Node>('Node', 'nodes', { namespaced: false });
export const secrets = core<Secret>('Secret', 'secrets');
export const configMaps = core<ConfigMap>('ConfigMap', 'configmaps');
