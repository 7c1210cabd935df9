/** Delays of a kubelet between restarts, in milliseconds. */
export interface BackOffLimits {
  readonly initialMs: number;
  readonly maxMs: number;
  /** Duration of a run after which the delay is reset. */
  readonly resetAfterMs: number;
}

export const kubeletBackOff: BackOffLimits = {
  initialMs: 10_000,
  maxMs: 300_000,
  resetAfterMs: 600_000,
};

/**
 * Delay before the next restart after the end of a run, in milliseconds; 0 before the first
 * restart, which is immediate.
 */
export type BackOff = number;

export const noBackOff: BackOff = 0;

export const raised = (backOff: BackOff, limits: BackOffLimits): BackOff =>
  backOff === noBackOff ? limits.initialMs : Math.min(backOff * 2, limits.maxMs);

export const afterRun = (backOff: BackOff, ranMs: number, limits: BackOffLimits): BackOff =>
  ranMs >= limits.resetAfterMs ? noBackOff : backOff;

/** Formats a duration as the messages of a kubelet do: 10s, 1m20s, 5m0s. */
export function goDuration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (ms < 1000) return `${ms}ms`;
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}
