import type { Probe } from './probe.ts';

/** Result of a probe; the verdict is undefined until a threshold has been reached. */
export interface ProbeCount {
  readonly verdict: boolean | undefined;
  readonly successes: number;
  readonly failures: number;
}

export const noCount: ProbeCount = { verdict: undefined, successes: 0, failures: 0 };

/**
 * Counts one more result. Consecutive successes make the verdict true, consecutive failures make it
 * false.
 */
export function counted(
  count: ProbeCount,
  ok: boolean,
  probe: Pick<Probe, 'successThreshold' | 'failureThreshold'>,
): ProbeCount {
  const successes = ok ? count.successes + 1 : 0;
  const failures = ok ? 0 : count.failures + 1;
  const verdict =
    successes >= (probe.successThreshold ?? 1)
      ? true
      : failures >= (probe.failureThreshold ?? 3)
        ? false
        : count.verdict;
  return { verdict, successes, failures };
}
