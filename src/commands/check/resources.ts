import type {
  V1LimitRange,
  V1LocalSubjectAccessReview,
  V1NetworkPolicy,
  V1ResourceQuota,
  V1RuntimeClass,
  V1SelfSubjectAccessReview,
  V1StorageClass,
} from '@kubernetes/client-node';
import type { CustomResourceDefinition, ServiceAccount } from '@conversation-operator/kube/core';
import type { KubeObject, ResourceDefinition, Wire } from '@conversation-operator/kube/object';

/** Kinds that no other part of the product reads. */
type Kind<T> = KubeObject & Wire<Omit<T, 'apiVersion' | 'kind' | 'metadata'>>;

export type StorageClass = Kind<V1StorageClass>;
export type ResourceQuota = Kind<V1ResourceQuota>;
export type LimitRange = Kind<V1LimitRange>;
export type NetworkPolicy = Kind<V1NetworkPolicy>;
export type RuntimeClass = Kind<V1RuntimeClass>;
export type SelfSubjectAccessReview = Kind<V1SelfSubjectAccessReview>;
export type LocalSubjectAccessReview = Kind<V1LocalSubjectAccessReview>;

const kind = <T extends KubeObject>(
  group: string,
  name: string,
  plural: string,
  namespaced: boolean,
): ResourceDefinition<T> => ({ group, version: 'v1', kind: name, plural, namespaced });

export const storageClasses = kind<StorageClass>(
  'storage.k8s.io',
  'StorageClass',
  'storageclasses',
  false,
);
export const resourceQuotas = kind<ResourceQuota>('', 'ResourceQuota', 'resourcequotas', true);
export const limitRanges = kind<LimitRange>('', 'LimitRange', 'limitranges', true);
export const serviceAccounts = kind<ServiceAccount>('', 'ServiceAccount', 'serviceaccounts', true);
export const networkPolicies = kind<NetworkPolicy>(
  'networking.k8s.io',
  'NetworkPolicy',
  'networkpolicies',
  true,
);
export const runtimeClasses = kind<RuntimeClass>(
  'node.k8s.io',
  'RuntimeClass',
  'runtimeclasses',
  false,
);
export const customResourceDefinitions = kind<CustomResourceDefinition>(
  'apiextensions.k8s.io',
  'CustomResourceDefinition',
  'customresourcedefinitions',
  false,
);
export const selfSubjectAccessReviews = kind<SelfSubjectAccessReview>(
  'authorization.k8s.io',
  'SelfSubjectAccessReview',
  'selfsubjectaccessreviews',
  false,
);
export const localSubjectAccessReviews = kind<LocalSubjectAccessReview>(
  'authorization.k8s.io',
  'LocalSubjectAccessReview',
  'localsubjectaccessreviews',
  true,
);
