import type { Clock } from '@conversation-operator/base/clock';
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
