import { SandboxReason } from '../../resources/sandbox.ts';
import { bindingMs, volumeNameTaken } from './claim-failure.ts';
import { retryAfterMs, type CreatedKind } from './create-error.ts';

export interface WaitingFor {
  readonly reason: string;
  readonly message: string;
  readonly requeueAfterMs?: number | undefined;
  readonly isDisrupted?: boolean;
}

/** Delay before the next attempt to create the object. */
const askAgainMs = 1_000;

/**
 * The wait for an object whose name is in use: by the sandbox's own new object, by an old one that
 * ends, or by one that no cache shows.
 */
export function nameInUse(what: CreatedKind, name: string, startingForMs: number): WaitingFor {
  if (what === 'pod')
    return {
      reason: SandboxReason.waitingForPod,
      message: 'Waiting for its pod.',
      requeueAfterMs: askAgainMs,
    };
  if (startingForMs < bindingMs)
    return {
      reason: SandboxReason.waitingForVolume,
      message: 'Waiting for its volume.',
      requeueAfterMs: askAgainMs,
    };
  const { code, message } = volumeNameTaken(name);
  return { reason: code, message, requeueAfterMs: retryAfterMs(startingForMs) };
}
