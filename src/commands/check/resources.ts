import type {
  V1LimitRange,
  V1LocalSubjectAccessReview,
  V1NetworkPolicy,
  V1ResourceQuota,
  V1RuntimeClass,
  V1SelfSubjectAccessReview,
  V1StorageClass,
} from '@kubernetes/client-node';
import {
  core,
  type Core,
  type CustomResourceDefinition,
  type ServiceAccount,
} from '@conversation-operator/kube/core';

/** Kinds that only the checks read. */
export type StorageClass = Core<V1StorageClass>;
export type ResourceQuota = Core<V1ResourceQuota>;
export type LimitRange = Core<V1LimitRange>;
export type NetworkPolicy = Core<V1NetworkPolicy>;
export type RuntimeClass = Core<V1RuntimeClass>;
export type SelfSubjectAccessReview = Core<V1SelfSubjectAccessReview>;
export type LocalSubjectAccessReview = Core<V1LocalSubjectAccessReview>;

const ofCluster = { namespaced: false } as const;

export const storageClasses = core<StorageClass>('StorageClass', 'storageclasses', {
  ...ofCluster,
  group: 'storage.k8s.io',
});
export const resourceQuotas = core<ResourceQuota>('ResourceQuota', 'resourcequotas');
export const limitRanges = core<LimitRange>('LimitRange', 'limitranges');
export const serviceAccounts = core<ServiceAccount>('ServiceAccount', 'serviceaccounts');
export const networkPolicies = core<NetworkPolicy>('NetworkPolicy', 'networkpolicies', {
  group: 'networking.k8s.io',
});
export const runtimeClasses = core<RuntimeClass>('RuntimeClass', 'runtimeclasses', {
  ...ofCluster,
  group: 'node.k8s.io',
});
export const customResourceDefinitions = core<CustomResourceDefinition>(
  'CustomResourceDefinition',
  'customresourcedefinitions',
  { ...ofCluster, group: 'apiextensions.k8s.io' },
);
export const selfSubjectAccessReviews = core<SelfSubjectAccessReview>(
  'SelfSubjectAccessReview',
  'selfsubjectaccessreviews',
  { ...ofCluster, group: 'authorization.k8s.io' },
);
export const localSubjectAccessReviews = core<LocalSubjectAccessReview>(
  'LocalSubjectAccessReview',
  'localsubjectaccessreviews',
  { group: 'authorization.k8s.io' },
);
