import { conversationAnnotation, retainedLabel } from '../controllers/sandbox/claim.ts';
import type { PersistentVolumeClaim, Pod } from '@conversation-operator/kube/core';
import { isOwnedBy } from '@conversation-operator/kube/object';
import { ownerAnnotation, type Sandbox } from '../resources/sandbox.ts';

export type ClaimState =
  /** Its sandbox exists. */
  | 'in-use'
  /** Another pod mounts it, for instance to copy files out. */
  | 'mounted'
  /** The sandbox is gone, and its template has kept the claim. */
  | 'retained'
  /** The sandbox is gone, and nothing says that the claim is to be kept. */
  | 'orphaned'
  | 'deleting';

export interface ClaimFacts {
  readonly claim: PersistentVolumeClaim;
  /** Those of the namespace. */
  readonly sandboxes: readonly Sandbox[];
  readonly pods: readonly Pod[];
}

const hasEnded = ({ status }: Pod): boolean =>
  status?.phase === 'Succeeded' || status?.phase === 'Failed';
const mounts = ({ spec }: Pod, claimName: string): boolean =>
  spec?.volumes?.some(
    ({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName === claimName,
  ) === true;

/** State of a claim with regard to the sandboxes and pods of its namespace. Pure. */
export function claimStateOf({ claim, sandboxes, pods }: ClaimFacts): ClaimState {
  const { name, deletionTimestamp, labels } = claim.metadata;
  if (deletionTimestamp !== undefined) return 'deleting';
  // A sandbox takes a retained claim of its own name.
  if (sandboxes.some((sandbox) => sandbox.metadata.name === name || isOwnedBy(claim, sandbox)))
    return 'in-use';
  if (pods.some((pod) => !hasEnded(pod) && mounts(pod, name))) return 'mounted';
  return labels?.[retainedLabel] === 'true' ? 'retained' : 'orphaned';
}

export interface ListedClaim {
  readonly claim: PersistentVolumeClaim;
  readonly state: ClaimState;
  readonly owner: string;
  /** Empty for a sandbox that was made for none. */
  readonly conversation: string;
  readonly size: string;
  readonly ageMs: number;
}

export function listed(facts: ClaimFacts, nowMs: number): ListedClaim {
  const { metadata, spec } = facts.claim;
  return {
    claim: facts.claim,
    state: claimStateOf(facts),
    owner: metadata.annotations?.[ownerAnnotation] ?? '',
    conversation: metadata.annotations?.[conversationAnnotation] ?? '',
    size: spec?.resources?.requests?.['storage'] ?? '',
    ageMs: nowMs - Date.parse(metadata.creationTimestamp),
  };
}

export interface PruneSelection {
  /** Empty: whatever its name. */
  readonly names: readonly string[];
  readonly owner?: string | undefined;
  /** Retained claims too, not only orphaned ones. */
  readonly retained: boolean;
  readonly olderThanMs: number;
}

/** Whether a claim is one that may be deleted, and was asked for. Pure. */
export const isPrunable = (
  { claim, state, owner, ageMs }: ListedClaim,
  selection: PruneSelection,
): boolean =>
  (state === 'orphaned' || (selection.retained && state === 'retained')) &&
  ageMs >= selection.olderThanMs &&
  (selection.owner === undefined || selection.owner === owner) &&
  (selection.names.length === 0 || selection.names.includes(claim.metadata.name));
