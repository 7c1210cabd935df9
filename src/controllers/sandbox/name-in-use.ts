import { SandboxReason } from '../../resources/sandbox.ts';
import { bindingMs, volumeNameTaken } from './claim-failure.ts';
import { retryAfterMs, type CreatedKind } from './create-error.ts';

export interface WaitingFor {
  readonly reason: string;
  readonly message: string;
  readonly requeueAfterMs?: number | undefined;
  readonly isDisrupted?: boolean;
}

const askAgainMs = 1_000;

/** Something of that name is there already: our own, written a moment ago, or an old one on its way out; or one that no cache of ours shows. */
export function nameInUse(what: CreatedKind, name: string, startingForMs: number): WaitingFor {
  if (what === 'pod') return { reason: SandboxReason.waitingForPod, message: 'Waiting for its pod.', requeueAfterMs: askAgainMs };
  if (startingForMs < bindingMs)
    return { reason: SandboxReason.waitingForVolume, message: 'Waiting for its volume.', requeueAfterMs: askAgainMs };
  const { code, message } = volumeNameTaken(name);
  return { reason: code, message, requeueAfterMs: retryAfterMs(startingForMs) };
}
