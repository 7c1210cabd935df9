import type { EventDetails } from '@conversation-operator/kube/events';
import type { CachedClaim } from '../../resources/cached-claim.ts';
import { isOwnedBy } from '@conversation-operator/kube/object';
import { SandboxReason, viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import { TroubleCode, isTroubleCode } from './trouble.ts';

/** What to tell of a sandbox whose volume has just been created. */
export function noticeOfVolume({ status }: Sandbox): EventDetails | undefined {
  if (status?.lastContainerID === undefined) return undefined;
  const message = 'Its volume claim was deleted, and the files with it. It gets a new, empty one.';
  return { type: 'Warning', reason: TroubleCode.volumeLost, message };
}

/** What to tell of a sandbox whose pod has just been created on this claim. */
export function noticeOfPod(sandbox: Sandbox, claim: CachedClaim | undefined): EventDetails | undefined {
  // It went so fast that nobody saw it going.
  if (viewOfSandbox(sandbox).phase === 'RUNNING') {
    return { type: 'Warning', reason: SandboxReason.podLost, message: 'Its pod is gone; it gets a new one on the same volume.' };
  }
  const older = claim !== undefined && Date.parse(claim.metadata.creationTimestamp) < Date.parse(sandbox.metadata.creationTimestamp);
  if (!older || isOwnedBy(claim, sandbox) || sandbox.status?.lastContainerID !== undefined) return undefined;
  return {
    type: 'Normal',
    reason: 'VolumeReused',
    message: `It goes on with the volume claim ${claim.metadata.name}, which was retained for its owner.`,
  };
}

/**
 * What a person would want to be told of a change of a sandbox's status, not of every step of a start. `said` are the API server's
 * own words, for those who read Events.
 */
export function noticeOfChange(before: Sandbox, after: Sandbox, said: string | undefined): EventDetails | undefined {
  const { phase, reason, message } = after.status ?? {};
  if (phase === undefined || (phase === before.status?.phase && reason === before.status.reason)) return undefined;
  const wrong = phase === 'ERROR' || reason === SandboxReason.podLost || isTroubleCode(reason ?? '');
  if (phase === 'STARTING' && !wrong) return undefined;
  const text = said === undefined ? (message ?? phase) : `${message ?? phase} The API server says: ${said}`;
  return { type: wrong ? 'Warning' : 'Normal', reason: reason ?? phase, message: text };
}
