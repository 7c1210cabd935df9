import type { EventDetails } from '@conversation-operator/kube/events';
import type { CachedClaim } from '../../resources/cached-core.ts';
import { isOwnedBy } from '@conversation-operator/kube/object';
import {
  SandboxReason,
  hasRun,
  isMadeForConversation,
  type Sandbox,
} from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import { FailureCode, isFailureCode, isWaitingCode } from './failure.ts';

/** The Event of a replaced volume; undefined for the first volume of a sandbox. */
export function volumeEvent({ status }: Sandbox): EventDetails | undefined {
  if (status?.lastContainerID === undefined) return undefined;
  const message =
    'The volume claim of the sandbox was deleted, and the files with it. The sandbox gets a new, empty one.';
  return { type: 'Warning', reason: FailureCode.volumeLost, message };
}

/** The Event of a pod that replaces a lost one or uses a retained claim; otherwise undefined. */
export function podEvent(
  sandbox: Sandbox,
  claim: CachedClaim | undefined,
): EventDetails | undefined {
  // The pod disappeared while the sandbox was RUNNING.
  if (viewOfSandbox(sandbox).phase === 'RUNNING') {
    return {
      type: 'Warning',
      reason: SandboxReason.podLost,
      message: 'The pod is gone; the sandbox gets a new one on the same volume.',
    };
  }
  const older =
    claim !== undefined &&
    Date.parse(claim.metadata.creationTimestamp) < Date.parse(sandbox.metadata.creationTimestamp);
  if (!older || isOwnedBy(claim, sandbox) || sandbox.status?.lastContainerID !== undefined)
    return undefined;
  return {
    type: 'Normal',
    reason: 'VolumeReused',
    message: `The sandbox continues with the volume claim ${claim.metadata.name}, which was retained for its owner.`,
  };
}

/**
 * The Event of a change of a sandbox's status; undefined for a step of a start. Also undefined for
 * the end of a start, if an Event of the conversation reports that end.
 * @param serverMessage Error message of the API server that caused the change, if any.
 */
export function statusEvent(
  before: Sandbox,
  after: Sandbox,
  serverMessage: string | undefined,
): EventDetails | undefined {
  const { phase, reason, message } = after.status ?? {};
  if (phase === undefined || (phase === before.status?.phase && reason === before.status.reason))
    return undefined;
  const wrong =
    phase === 'ERROR' || reason === SandboxReason.podLost || isFailureCode(reason ?? '');
  if (phase === 'STARTING' && !wrong) return undefined;
  // The conversation has the Event about the end of its start.
  if (phase === 'RUNNING' && !hasRun(before) && isMadeForConversation(before)) return undefined;
  const text =
    serverMessage === undefined
      ? (message ?? phase)
      : `${message ?? phase} The API server says: ${serverMessage}`;
  const isWarning = wrong && !(phase === 'STARTING' && isWaitingCode(reason ?? ''));
  return { type: isWarning ? 'Warning' : 'Normal', reason: reason ?? phase, message: text };
}
