import type { Logger } from './logger.ts';
import { leases, type Lease } from './core.ts';
import { apiVersionOf } from './object.ts';
import type { KubeClient } from './client.ts';
import { sleep, type Clock, type Timer } from './clock.ts';
import { isAlreadyExists, isConflict, isNotFound } from './errors.ts';
import { WriteLedger } from './write-ledger.ts';

export interface LeaderElectionOptions {
  /** Not a fenced one, and not one whose connections the leader's work uses. */
  readonly client: KubeClient;
  /** Of the Lease. */
  readonly namespace: string;
  readonly name: string;
  /** Of this process, and of no other one at any time: a host's name is not enough. */
  readonly identity: string;
  /** How long others leave a lease alone that is not renewed; 15 s by default. The same for all candidates. */
  readonly leaseDurationMs?: number;
  /** How long after its last renewal a leader goes on; 10 s by default. */
  readonly renewDeadlineMs?: number;
  /** Between renewals; 2 s by default. Candidates look two to four times as often, so that they soon see a lease that was given back. */
  readonly retryPeriodMs?: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  /**
   * Begins the leader's work. When the signal is aborted, leading is over or about to be: the work has to end, and the promise
   * says when it has. A promise that ends earlier changes nothing; one that rejects ends the leading.
   */
  readonly onStartedLeading: (signal: AbortSignal) => Promise<void> | void;
  /** The work has ended. */
  readonly onStoppedLeading?: () => void;
}

/** A write was refused, before anything was sent, because this process may not be the leader any more. */
export class NotLeadingError extends Error {
  override readonly name = 'NotLeadingError';
}

interface Observed {
  readonly lease: Lease;
  readonly record: string;
  readonly at: number;
}

const never = Number.NEGATIVE_INFINITY;
/** How often a leader that wants to give its lease away looks whether its last writes have been answered. */
const settlePollMs = 20;

/**
 * Makes one of several processes the leader, by a Lease, with client-go's rules. Only candidates look more often than client-go's.
 *
 * What two leaders can't do at once rests on three things, and no clock is ever compared with another one:
 * 1. A leader counts its time from before it sent a renewal, and leads for `renewDeadlineMs` from there.
 * 2. Others count theirs from when they saw the Lease change, and wait for `leaseDurationMs`; they can have seen it only later.
 * 3. A fenced write is handed to a connection only while 1 holds, and the API server executes it within `writeDeadlineMs`, the
 *    difference of both, or never. That is the one assumption.
 */
export class LeaderElection {
  readonly #options: LeaderElectionOptions;
  readonly #logger: Logger;
  readonly #leaseDurationMs: number;
  readonly #renewDeadlineMs: number;
  readonly #retryPeriodMs: number;
  readonly #writes: WriteLedger;
  #observed: Observed | undefined;
  #leadingUntil = never;
  #running = false;

  constructor(options: LeaderElectionOptions) {
    const { leaseDurationMs = 15_000, renewDeadlineMs = 10_000, retryPeriodMs = 2000 } = options;
    if (leaseDurationMs <= renewDeadlineMs) throw new RangeError('leaseDurationMs must be greater than renewDeadlineMs');
    if (renewDeadlineMs <= retryPeriodMs * 1.2) throw new RangeError('renewDeadlineMs must be greater than 1.2 times retryPeriodMs');
    this.#options = options;
    this.#logger = options.logger.child({ lease: `${options.namespace}/${options.name}`, identity: options.identity });
    this.#leaseDurationMs = leaseDurationMs;
    this.#renewDeadlineMs = renewDeadlineMs;
    this.#retryPeriodMs = retryPeriodMs;
    this.#writes = new WriteLedger(options.clock, this.writeDeadlineMs);
  }

  /** How long a write of the leader may be under way. */
  get writeDeadlineMs(): number {
    return this.#leaseDurationMs - this.#renewDeadlineMs;
  }

  /** No other process leads, now and for `writeDeadlineMs`. True only of the turn in which it is asked. */
  get isLeading(): boolean {
    return this.#options.clock.monotonic() < this.#leadingUntil;
  }

  /** The gate in front of every write of a leader. Throws a NotLeadingError. */
  assertLeading(): void {
    if (!this.isLeading) throw new NotLeadingError(`${this.#options.identity} does not lead`);
  }

  /** For `fenced`: a Lease is given away only when no write made under it can still be executed. */
  get writes(): WriteLedger {
    return this.#writes;
  }

  /**
   * Waits for the lease, leads, and resolves when that is over and the leader's work has ended: the lease was lost, the work
   * failed, or the signal was aborted, which gives the lease to others at once. May be called again then.
   */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#running) throw new Error('the election is running already');
    this.#running = true;
    try {
      if (await this.#acquire(signal)) await this.#lead(signal);
    } finally {
      this.#leadingUntil = never;
      this.#running = false;
    }
  }

  async #acquire(signal: AbortSignal): Promise<boolean> {
    const { clock, random } = this.#options;
    const stopped = () => signal.aborted;
    while (!stopped()) {
      try {
        if (await this.#acquireOrRenew(signal)) return true;
      } catch (error) {
        if (!stopped()) this.#logger.warn('Lease could not be looked at', { error });
      }
      await sleep(clock, (this.#retryPeriodMs / 4) * (1 + random()), signal).catch(() => undefined);
    }
    return false;
  }

  async #lead(signal: AbortSignal): Promise<void> {
    const { clock, identity } = this.#options;
    this.#logger.info('Leading');
    const lost = new AbortController();
    const expiry = this.#onExpiry(() => {
      lost.abort(new NotLeadingError(`${identity} could not renew the lease in time`));
    });
    const ended = new AbortController();
    const over = () => lost.signal.aborted || ended.signal.aborted;
    const work = this.#work(AbortSignal.any([lost.signal, ended.signal, signal])).then(() => {
      ended.abort(new Error('the work of the leader has ended'));
    });
    // Renewed until the work has ended, not only until it is told to: before that nobody else may begin.
    while (!over()) {
      await sleep(clock, this.#retryPeriodMs, AbortSignal.any([lost.signal, ended.signal])).catch(() => undefined);
      if (!over()) await this.#renew(lost);
    }
    await work;
    expiry.cancel();
    const heldUntil = lost.signal.aborted ? never : this.#leadingUntil;
    this.#leadingUntil = never;
    this.#logger.info('Not leading any more', { lost: lost.signal.aborted });
    this.#options.onStoppedLeading?.();
    await this.#release(heldUntil);
  }

  /** Resolves when the work has ended and was told to. */
  async #work(term: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    try {
      // Of an earlier time as leader: what it has sent last may still be executed.
      const unsettledMs = this.#writes.settledAt - clock.monotonic();
      if (unsettledMs > 0) await sleep(clock, unsettledMs, term);
      await this.#options.onStartedLeading(term);
    } catch (error) {
      if (!term.aborted) this.#logger.error('The work of the leader failed', { error });
      return;
    }
    if (!term.aborted) await new Promise((resolve) => term.addEventListener('abort', resolve, { once: true }));
  }

  async #renew(lost: AbortController): Promise<void> {
    try {
      if (await this.#acquireOrRenew(lost.signal)) return;
      this.#leadingUntil = never;
      lost.abort(new NotLeadingError(`${this.#options.identity} found another holder in its lease`));
    } catch (error) {
      if (!lost.signal.aborted) this.#logger.warn('Lease could not be renewed', { error });
    }
  }

  /** False: another one has the lease, or was faster. */
  async #acquireOrRenew(signal: AbortSignal): Promise<boolean> {
    try {
      // A leader knows what it has written last.
      if (this.isLeading && this.#observed !== undefined) return await this.#take(this.#observed.lease, signal);
    } catch (error) {
      if (!isConflict(error) && !isNotFound(error)) throw error;
    }
    try {
      const lease = await this.#read(signal);
      if (lease === undefined) return await this.#create(signal);
      return !this.#isHeldByOther(this.#observe(lease)) && (await this.#take(lease, signal));
    } catch (error) {
      if (isConflict(error) || isAlreadyExists(error)) return false;
      throw error;
    }
  }

  async #read(signal: AbortSignal): Promise<Lease | undefined> {
    const { client, namespace, name } = this.#options;
    try {
      return await client.get(leases, namespace, name, this.#call(signal));
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  async #create(signal: AbortSignal): Promise<boolean> {
    const { client, clock, namespace, name } = this.#options;
    const sentAt = clock.monotonic();
    const lease = await client.create(
      leases,
      { apiVersion: apiVersionOf(leases), kind: leases.kind, metadata: { namespace, name }, spec: this.#spec(undefined) },
      this.#call(signal),
    );
    this.#holds(lease, sentAt);
    return true;
  }

  async #take(lease: Lease, signal: AbortSignal): Promise<boolean> {
    const sentAt = this.#options.clock.monotonic();
    // The version in the lease is the precondition: whoever else writes meanwhile makes this fail.
    const stored = await this.#options.client.update(leases, { ...lease, spec: this.#spec(lease.spec) }, this.#call(signal));
    this.#holds(stored, sentAt);
    return true;
  }

  /** Lets the next one begin at once, where nothing that this one has sent can come after it. */
  async #release(heldUntil: number): Promise<void> {
    const { client, clock } = this.#options;
    // A write under way is answered at once as a rule; one whose outcome stays unknown is waited out, or the lease with it.
    while (this.#writes.settledAt > clock.monotonic() && clock.monotonic() < heldUntil) {
      await sleep(clock, Math.min(settlePollMs, this.#writes.settledAt - clock.monotonic()));
    }
    if (clock.monotonic() >= heldUntil || this.#observed === undefined) return;
    const { lease } = this.#observed;
    const now = microTime(clock);
    try {
      const spec = { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, acquireTime: now, renewTime: now };
      this.#observe(await client.update(leases, { ...lease, spec }, { deadlineMs: this.#renewDeadlineMs / 2 }));
    } catch (error) {
      this.#logger.debug('Lease could not be given back; it runs out', { error });
    }
  }

  #holds(lease: Lease, sentAt: number): void {
    this.#observe(lease);
    this.#leadingUntil = sentAt + this.#renewDeadlineMs;
  }

  /** The time counts from when the record changed before our eyes. What stands in it was written by another clock. */
  #observe(lease: Lease): Observed {
    const record = JSON.stringify(lease.spec);
    const at = this.#observed?.record === record ? this.#observed.at : this.#options.clock.monotonic();
    return (this.#observed = { lease, record, at });
  }

  #isHeldByOther({ lease, at }: Observed): boolean {
    const { holderIdentity = '', leaseDurationSeconds } = lease.spec ?? {};
    if (holderIdentity === '' || holderIdentity === this.#options.identity) return false;
    const durationMs = leaseDurationSeconds === undefined ? this.#leaseDurationMs : leaseDurationSeconds * 1000;
    return this.#options.clock.monotonic() < at + durationMs;
  }

  #spec(before: Lease['spec']): NonNullable<Lease['spec']> {
    const { clock, identity } = this.#options;
    const now = microTime(clock);
    const kept = before?.holderIdentity === identity;
    return {
      ...before,
      holderIdentity: identity,
      leaseDurationSeconds: Math.ceil(this.#leaseDurationMs / 1000),
      acquireTime: kept ? (before.acquireTime ?? now) : now,
      renewTime: now,
      leaseTransitions: before === undefined ? 0 : (before.leaseTransitions ?? 0) + (kept ? 0 : 1),
    };
  }

  #call(signal: AbortSignal) {
    return { signal, deadlineMs: this.#renewDeadlineMs / 2 };
  }

  /** Calls back once, in the turn in which leading has run out unrenewed. */
  #onExpiry(callback: () => void): Timer {
    const { clock } = this.#options;
    const arm = (): Timer =>
      clock.after(this.#leadingUntil - clock.monotonic(), () => {
        if (this.isLeading) timer = arm();
        else callback();
      });
    let timer = arm();
    return { cancel: () => timer.cancel() };
  }
}

/** A Kubernetes MicroTime: six digits, or it is refused. */
const microTime = (clock: Clock): string => `${new Date(clock.now()).toISOString().slice(0, -1)}000Z`;
