import type { Clock } from './clock.ts';
import type { Lease } from './core.ts';

export interface ObservedLeaseOptions {
  readonly clock: Clock;
  /** Time without a change after which a Lease without a duration of its own has expired. */
  readonly leaseDurationMs: number;
}

/**
 * A Lease as one process has observed it, with the local time of its last change. The times within
 * the Lease come from other clocks and are not used.
 */
export class ObservedLease {
  readonly #options: ObservedLeaseOptions;
  #observed: { readonly lease: Lease; readonly record: string; readonly at: number } | undefined;

  constructor(options: ObservedLeaseOptions) {
    this.#options = options;
  }

  /** The last observed state; undefined: none, or the Lease did not exist. */
  get lease(): Lease | undefined {
    return this.#observed?.lease;
  }

  observe(lease: Lease | undefined): void {
    if (lease === undefined) {
      this.#observed = undefined;
      return;
    }
    const record = JSON.stringify(lease.spec);
    const at =
      this.#observed?.record === record ? this.#observed.at : this.#options.clock.monotonic();
    this.#observed = { lease, record, at };
  }

  /**
   * The identity that holds the Lease. Undefined: the Lease is free, or has not changed for its
   * duration.
   */
  get holder(): string | undefined {
    if (this.#observed === undefined) return undefined;
    const { lease, at } = this.#observed;
    const { holderIdentity = '', leaseDurationSeconds } = lease.spec ?? {};
    const durationMs =
      leaseDurationSeconds === undefined
        ? this.#options.leaseDurationMs
        : leaseDurationSeconds * 1000;
    const isExpired = this.#options.clock.monotonic() >= at + durationMs;
    return holderIdentity === '' || isExpired ? undefined : holderIdentity;
  }
}

/** Returns a Kubernetes MicroTime, which the API server accepts only with six digits. */
export const microTime = (clock: Clock): string =>
  `${new Date(clock.now()).toISOString().slice(0, -1)}000Z`;

/**
 * Returns a MicroTime that is later than `previous`: by the clock, or by a microsecond where the
 * clock is not ahead. Two renewals of one holder have different records therefore, and every
 * observer notices each of them.
 */
export function laterMicroTime(clock: Clock, previous: string | undefined): string {
  const now = microTime(clock);
  const micros = microsecondsOf(previous);
  if (previous === undefined || Number.isNaN(micros) || microsecondsOf(now) > micros) return now;
  const next = micros + 1;
  const digits = String(next % 1000).padStart(3, '0');
  return `${new Date(Math.floor(next / 1000)).toISOString().slice(0, -1)}${digits}Z`;
}

const microsecondsOf = (time = ''): number =>
  Date.parse(`${time.slice(0, 23)}Z`) * 1000 + Number(time.slice(23, 26));
