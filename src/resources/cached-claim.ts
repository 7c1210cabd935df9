import { cachedMetadata } from './cached-metadata.ts';
import type { PersistentVolumeClaim } from '@conversation-operator/kube/core';
import type { Interner } from './interner.ts';
import type { CachedMetadata, KubeObject } from '@conversation-operator/kube/object';

/** A claim as caches hold it. */
export interface CachedClaim extends Omit<KubeObject, 'metadata'> {
  readonly metadata: CachedMetadata;
  readonly spec?: Pick<NonNullable<PersistentVolumeClaim['spec']>, 'storageClassName'>;
  readonly status?: Pick<NonNullable<PersistentVolumeClaim['status']>, 'phase'>;
}

/** The transform of the cache of claims. */
export function cachedClaim(claim: PersistentVolumeClaim, interner: Interner): CachedClaim {
  const { apiVersion, kind, spec, status } = claim;
  return {
    apiVersion,
    kind: interner.of(kind),
    metadata: cachedMetadata(claim.metadata, interner),
    ...(spec?.storageClassName === undefined
      ? {}
      : { spec: { storageClassName: interner.of(spec.storageClassName) } }),
    ...(status?.phase === undefined ? {} : { status: { phase: status.phase } }),
  };
}
