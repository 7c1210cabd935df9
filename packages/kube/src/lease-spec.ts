import type { Clock } from '@conversation-operator/base/clock';
import type { Lease } from './core.ts';

export type LeaseSpec = NonNullable<Lease['spec']>;

interface Holding {
  readonly holder: string;
  readonly durationMs: number;
  readonly clock: Clock;
}

/** Returns the spec of a Lease that the holder takes or renews. */
export function heldSpec(before: Lease['spec'], { holder, durationMs, clock }: Holding): LeaseSpec {
  const kept = before?.holderIdentity === holder;
  const now = kept ? laterMicroTime(clock, before.renewTime) : microTime(clock);
  return {
    ...before,
    holderIdentity: holder,
    leaseDurationSeconds: Math.ceil(durationMs / 1000),
    acquireTime: kept ? (before.acquireTime ?? now) : now,
    renewTime: now,
    leaseTransitions: before === undefined ? 0 : (before.leaseTransitions ?? 0) + (kept ? 0 : 1),
  };
}

/** Returns the spec of a Lease that its holder releases. */
export function releasedSpec(before: Lease['spec'], clock: Clock): LeaseSpec {
  const now = microTime(clock);
  return {
    ...before,
    holderIdentity: '',
    leaseDurationSeconds: 1,
    acquireTime: now,
    renewTime: now,
  };
}

/** Returns a Kubernetes MicroTime, which the API server accepts only with six digits. */
const microTime = (clock: Clock): string =>
  `${new Date(clock.now()).toISOString().slice(0, -1)}000Z`;

/**
 * Returns a MicroTime that is later than `previous`: by the clock, or by a microsecond where the
 * clock is not ahead. Two renewals of one holder have different records therefore, and every
 * observer notices each of them.
 */
function laterMicroTime(clock: Clock, previous: string | undefined): string {
  const now = microTime(clock);
  const micros = microsecondsOf(previous);
  if (previous === undefined || Number.isNaN(micros) || microsecondsOf(now) > micros) return now;
  const next = micros + 1;
  const digits = String(next % 1000).padStart(3, '0');
  return `${new Date(Math.floor(next / 1000)).toISOString().slice(0, -1)}${digits}Z`;
}

const microsecondsOf = (time = ''): number =>
  Date.parse(`${time.slice(0, 23)}Z`) * 1000 + Number(time.slice(23, 26));
