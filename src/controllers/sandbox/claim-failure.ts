import type { CachedPod } from '../../resources/cached-pod.ts';
import type { CachedClaim } from '../../resources/cached-claim.ts';
import { isOwnedBy } from '@conversation-operator/kube/object';
import { ownerAnnotation, sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { FailurePolicy, FailureCode, type Failure } from './failure.ts';

/** What a claim of the sandbox's name is to the sandbox. */
export type ClaimOwnership =
  /** Made for it; or retained from a sandbox of the same name and owner, whose files it goes on with. */
  | 'own'
  /** Of an earlier sandbox of the name, and about to go with it; or being deleted. */
  | 'going'
  /** Somebody else's: never taken, however long the sandbox waits. */
  | 'foreign';

export function ownershipOf(claim: CachedClaim, sandbox: Sandbox): ClaimOwnership {
  const { deletionTimestamp, ownerReferences = [], annotations } = claim.metadata;
  if (deletionTimestamp !== undefined) return 'going';
  if (isOwnedBy(claim, sandbox)) return 'own';
  if (ownerReferences.some(({ kind }) => kind === sandboxes.kind)) return 'going';
  return ownerReferences.length === 0 && annotations?.[ownerAnnotation] === sandbox.spec.owner ? 'own' : 'foreign';
}

export const volumeNameTaken = (name: string): Failure => ({
  code: FailureCode.volumeNameTaken,
  message: `There is a volume claim ${name} already, which is not this sandbox's to take.`,
  policy: FailurePolicy.transient,
});

/**
 * Grace in milliseconds, from the creation of the pod, in which an unbound claim is no failure: a provisioner takes some seconds, cloud
 * disks ten, and a scheduler calls the pod unschedulable meanwhile. Later something is wrong, though with a late binding class the
 * scheduler says nothing for ten minutes.
 */
export const bindingMs = 20_000;

/** Milliseconds until an unbound claim is a failure; at most 0 when the grace is over. */
export const bindingInMs = (pod: CachedPod, now: number): number => bindingMs - (now - Date.parse(pod.metadata.creationTimestamp));

/** What is wrong with the claim of a sandbox whose pod does not run. */
export function claimFailure(claim: CachedClaim, pod: CachedPod, now: number): Failure | undefined {
  const { phase } = claim.status ?? {};
  if (phase === 'Lost') {
    const message = 'Its volume does not exist any more.';
    return { code: FailureCode.volumeLost, message, policy: FailurePolicy.needsRepair };
  }
  const { conditions, containerStatuses, phase: podPhase = 'Pending' } = pod.status ?? {};
  const scheduled = conditions?.some(({ type, status }) => type === 'PodScheduled' && status === 'True') === true;
  const begun = scheduled || podPhase !== 'Pending' || (containerStatuses ?? []).length > 0;
  if (phase === 'Bound' || begun || bindingInMs(pod, now) > 0) return undefined;
  return volumeNotBound(claim);
}

/** Says what may be missing: that a class does not exist is known only to those who may read classes. */
export function volumeNotBound({ spec }: CachedClaim): Failure {
  const { storageClassName } = spec ?? {};
  const why =
    storageClassName === undefined || storageClassName === ''
      ? 'the template names no storage class, and the cluster has no default one that provides it'
      : `the storage class ${storageClassName} does not exist, or does not provide it`;
  return { code: FailureCode.volumeNotBound, message: `Its volume is not bound yet: ${why}.`, policy: FailurePolicy.transient };
}
