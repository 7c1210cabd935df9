import type { CachedPod, CachedClaim } from '../../resources/cached-core.ts';
import { isOwnedBy } from '@conversation-operator/kube/object';
import { ownerAnnotation, sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { FailurePolicy, FailureCode, type Failure } from './failure.ts';

/** The relation of a claim to the sandbox whose name it has. */
export type ClaimOwnership =
  /**
   * Made for the sandbox; or retained from a sandbox of the same name and owner, whose files the
   * sandbox takes over.
   */
  | 'own'
  /** Owned by an earlier sandbox of the name, and about to be deleted with it; or being deleted. */
  | 'going'
  /** Made for another owner, or by hand: never taken, however long the sandbox waits. */
  | 'foreign';

export function ownershipOf(claim: CachedClaim, sandbox: Sandbox): ClaimOwnership {
  const { deletionTimestamp, ownerReferences = [], annotations } = claim.metadata;
  if (deletionTimestamp !== undefined) return 'going';
  if (isOwnedBy(claim, sandbox)) return 'own';
  if (ownerReferences.some(({ kind }) => kind === sandboxes.kind)) return 'going';
  return ownerReferences.length === 0 && annotations?.[ownerAnnotation] === sandbox.spec.owner
    ? 'own'
    : 'foreign';
}

export const volumeNameTaken = (name: string): Failure => ({
  code: FailureCode.volumeNameTaken,
  message: `A volume claim ${name} exists already and does not belong to the sandbox.`,
  policy: FailurePolicy.transient,
});

/**
 * Grace in milliseconds, from the creation of the pod, in which an unbound claim is no failure: a
 * provisioner takes some seconds, cloud disks ten, and a scheduler calls the pod unschedulable
 * meanwhile. Later something is wrong, though with a late binding class the scheduler says nothing
 * for ten minutes.
 */
export const bindingMs = 20_000;

/** Milliseconds until an unbound claim is a failure; at most 0 when the grace is over. */
export const bindingInMs = (pod: CachedPod, now: number): number =>
  bindingMs - (now - Date.parse(pod.metadata.creationTimestamp));

/** The failure of the claim of a sandbox whose pod does not run; undefined for none. */
export function claimFailure(claim: CachedClaim, pod: CachedPod, now: number): Failure | undefined {
  const { phase } = claim.status ?? {};
  if (phase === 'Lost') {
    const message = 'The volume of the sandbox does not exist any more.';
    return { code: FailureCode.volumeLost, message, policy: FailurePolicy.needsRepair };
  }
  const { conditions, containerStatuses, phase: podPhase = 'Pending' } = pod.status ?? {};
  const scheduled =
    conditions?.some(({ type, status }) => type === 'PodScheduled' && status === 'True') === true;
  const begun = scheduled || podPhase !== 'Pending' || (containerStatuses ?? []).length > 0;
  if (phase === 'Bound' || begun || bindingInMs(pod, now) > 0) return undefined;
  return volumeNotBound(claim);
}

/**
 * The message names all possible causes, because the operator has no right to read storage classes.
 */
export function volumeNotBound({ spec }: CachedClaim): Failure {
  const { storageClassName } = spec ?? {};
  const why =
    storageClassName === undefined || storageClassName === ''
      ? 'the template names no storage class, and the cluster has no default one that provides it'
      : `the storage class ${storageClassName} does not exist, or does not provide it`;
  return {
    code: FailureCode.volumeNotBound,
    message: `The volume of the sandbox is not bound yet: ${why}.`,
    policy: FailurePolicy.transient,
  };
}
