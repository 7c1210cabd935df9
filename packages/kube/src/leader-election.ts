import type { Logger } from '@conversation-operator/base/logger';
import type { Runtime } from '@conversation-operator/base/runtime';
import { leases, type Lease } from './core.ts';
import { apiVersionOf } from './object.ts';
import { sleep, type Timer } from '@conversation-operator/base/clock';
import { found, isAlreadyExists, isConflict, isNotFound } from './errors.ts';
import type { KubeClient } from './client.ts';
import {
  type LeaseMembers,
  heldSpec,
  releasedSpec,
  type LeaseSpec,
  ObservedLease,
  WriteLedger,
} from './lease.ts';

export interface LeaderElectionOptions extends Runtime {
  /** Client for the Lease, not made by `fenced`. The leader's work uses other connections. */
  readonly client: KubeClient;
  readonly namespace: string;
  readonly name: string;
  /** Identity of this process, unique over all processes and time, unlike a host name. */
  readonly identity: string;
  /** Processes that hold the Lease together and all lead. Absent: one process holds the Lease. */
  readonly members?: LeaseMembers;
  /** Time without renewal until others may take the Lease; default 15 s. Equal in all processes. */
  readonly leaseDurationMs?: number;
  /** Time without a renewal after which a leader stops leading; default 10 s. */
  readonly renewDeadlineMs?: number;
  /** Delay between renewals; default 2 s. Candidates read the Lease 2–4 times in this delay. */
  readonly retryPeriodMs?: number;
  /**
   * Runs the work of the leader. The signal is aborted when leading is over or about to end; the
   * work then has to end, and the promise resolves when the work has ended. If the promise resolves
   * earlier, this process continues to lead. If the promise rejects, leading ends.
   */
  readonly onStartedLeading: (signal: AbortSignal) => Promise<void> | void;
  readonly onStoppedLeading?: () => void;
}

/** This process may not be the leader any more. A write that fails with this error was not sent. */
export class NotLeadingError extends Error {
  override readonly name = 'NotLeadingError';
}

const never = Number.NEGATIVE_INFINITY;
/** Delay before a releasing leader checks again whether its last writes have completed. */
const settlePollMs = 20;

/**
 * Elects one of several processes as leader with a Lease, by the rules of client-go, except that
 * candidates poll more often.
 *
 * At most one process leads because of three rules, without comparing clocks of two processes:
 * 1. A leader leads for `renewDeadlineMs`, counted from a time before it sent its last renewal.
 * 2. Another candidate waits for `leaseDurationMs`, counted from the time at which it saw this
 *    renewal. That time is later than the one in rule 1.
 * 3. A write of a `fenced` client is handed to a connection only while rule 1 lets the leader lead.
 *    The only assumption is that the API server executes such a write within `writeDeadlineMs`, the
 *    difference of both durations, or never.
 */
export class LeaderElection {
  readonly #options: LeaderElectionOptions;
  readonly #logger: Logger;
  readonly #leaseDurationMs: number;
  readonly #renewDeadlineMs: number;
  readonly #retryPeriodMs: number;
  readonly #writes: WriteLedger;
  /** The Lease as this process has last observed it. Callers may call `observe` too. */
  readonly observed: ObservedLease;
  #leadingUntil = never;
  #running = false;

  constructor(options: LeaderElectionOptions) {
    const { leaseDurationMs = 15_000, renewDeadlineMs = 10_000, retryPeriodMs = 2000 } = options;
    if (leaseDurationMs <= renewDeadlineMs)
      throw new RangeError('leaseDurationMs must be greater than renewDeadlineMs');
    if (renewDeadlineMs <= retryPeriodMs * 1.2)
      throw new RangeError('renewDeadlineMs must be greater than 1.2 times retryPeriodMs');
    this.#options = options;
    this.#logger = options.logger.child({
      lease: `${options.namespace}/${options.name}`,
      identity: options.identity,
    });
    this.#leaseDurationMs = leaseDurationMs;
    this.#renewDeadlineMs = renewDeadlineMs;
    this.#retryPeriodMs = retryPeriodMs;
    this.#writes = new WriteLedger(options.clock, this.writeDeadlineMs);
    this.observed = new ObservedLease({ clock: options.clock, leaseDurationMs });
  }

  get writeDeadlineMs(): number {
    return this.#leaseDurationMs - this.#renewDeadlineMs;
  }

  /** Whether this process leads now, and no other process can lead within `writeDeadlineMs`. */
  get isLeading(): boolean {
    return this.#options.clock.monotonic() < this.#leadingUntil;
  }

  /** Throws a NotLeadingError unless this process leads. `fenced` calls this before each write. */
  assertLeading(): void {
    if (!this.isLeading) throw new NotLeadingError(`${this.#options.identity} does not lead`);
  }

  /** Writes of `fenced`. The Lease is released only when none of them may still be executed. */
  get writes(): WriteLedger {
    return this.#writes;
  }

  /**
   * Waits for the Lease and leads. Resolves when the work of the leader has ended, after the Lease
   * was lost, the work failed, or the signal was aborted. After an abort, this process releases the
   * Lease and does not wait for its expiry. The caller may call `run` again afterwards.
   */
  run(signal: AbortSignal): Promise<void> {
    return this.#run(() => this.#acquire(signal), signal);
  }

  /** Like `run`, but makes one attempt: resolves at once if another process holds the Lease. */
  runOnce(signal: AbortSignal): Promise<void> {
    return this.#run(() => this.#attempt(signal), signal);
  }

  async #run(acquire: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
    if (this.#running) throw new Error('the election is running already');
    this.#running = true;
    try {
      if (await acquire()) await this.#lead(signal);
    } finally {
      this.#leadingUntil = never;
      this.#running = false;
    }
  }

  async #acquire(signal: AbortSignal): Promise<boolean> {
    const { clock, random } = this.#options;
    const stopped = () => signal.aborted;
    while (!stopped()) {
      if (await this.#attempt(signal)) return true;
      await sleep(clock, (this.#retryPeriodMs / 4) * (1 + random()), signal).catch(() => undefined);
    }
    return false;
  }

  async #attempt(signal: AbortSignal): Promise<boolean> {
    try {
      return await this.#acquireOrRenew(signal);
    } catch (error) {
      if (!signal.aborted) this.#logger.warn('Lease could not be read', { error });
      return false;
    }
  }

  async #lead(signal: AbortSignal): Promise<void> {
    const { clock, identity } = this.#options;
    this.#logger.info('Started leading');
    const lost = new AbortController();
    const expiry = this.#onExpiry(() => {
      lost.abort(new NotLeadingError(`${identity} could not renew the lease in time`));
    });
    const ended = new AbortController();
    const over = () => lost.signal.aborted || ended.signal.aborted;
    const work = this.#work(AbortSignal.any([lost.signal, ended.signal, signal])).then(() => {
      ended.abort(new Error('the work of the leader has ended'));
    });
    // The leader renews the Lease until its work ends, so that no other candidate starts earlier.
    while (!over()) {
      await sleep(clock, this.#retryPeriodMs, AbortSignal.any([lost.signal, ended.signal])).catch(
        () => undefined,
      );
      if (!over()) await this.#renew(lost);
    }
    await work;
    expiry.cancel();
    const heldUntil = lost.signal.aborted ? never : this.#leadingUntil;
    this.#leadingUntil = never;
    this.#logger.info('Stopped leading', { lost: lost.signal.aborted });
    this.#options.onStoppedLeading?.();
    await this.#release(heldUntil);
  }

  async #work(term: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    try {
      // The API server may still execute the last writes of an earlier term of this process.
      const unsettledMs = this.#writes.settledAt - clock.monotonic();
      if (unsettledMs > 0) await sleep(clock, unsettledMs, term);
      await this.#options.onStartedLeading(term);
    } catch (error) {
      if (!term.aborted) this.#logger.error('The work of the leader failed', { error });
      return;
    }
    if (!term.aborted)
      await new Promise((resolve) => term.addEventListener('abort', resolve, { once: true }));
  }

  async #renew(lost: AbortController): Promise<void> {
    try {
      if (await this.#acquireOrRenew(lost.signal)) return;
      this.#leadingUntil = never;
      lost.abort(
        new NotLeadingError(`${this.#options.identity} found another holder in its lease`),
      );
    } catch (error) {
      if (!lost.signal.aborted) this.#logger.warn('Lease could not be renewed', { error });
    }
  }

  /** Returns false if another candidate holds the Lease or has just taken it. */
  async #acquireOrRenew(signal: AbortSignal): Promise<boolean> {
    const { lease: known } = this.observed;
    try {
      // A leader knows the Lease that it wrote last, and reads it only if other members write too.
      if (this.isLeading && known !== undefined && this.#options.members === undefined)
        return await this.#take(known, signal);
    } catch (error) {
      if (!isConflict(error) && !isNotFound(error)) throw error;
    }
    for (;;) {
      try {
        const lease = await this.#read(signal);
        this.#observe(lease);
        if (lease === undefined) return await this.#create(signal);
        return !this.#isHeldByOther && (await this.#take(lease, signal));
      } catch (error) {
        if (!isConflict(error) && !isAlreadyExists(error)) throw error;
        // The conflict may be the renewal of another member, so the loop tries again.
        if (this.#options.members === undefined) return false;
      }
    }
  }

  async #read(signal: AbortSignal): Promise<Lease | undefined> {
    const { client, namespace, name } = this.#options;
    return found(client.get(leases, namespace, name, this.#call(signal)));
  }

  async #create(signal: AbortSignal): Promise<boolean> {
    const { client, clock, namespace, name, members } = this.#options;
    const sentAt = clock.monotonic();
    const lease = await client.create(
      leases,
      {
        apiVersion: apiVersionOf(leases),
        kind: leases.kind,
        metadata: {
          namespace,
          name,
          ...(members === undefined ? {} : { annotations: members.joined(undefined) }),
        },
        spec: this.#spec(undefined),
      },
      this.#call(signal),
    );
    this.#extendTerm(lease, sentAt);
    return true;
  }

  async #take(lease: Lease, signal: AbortSignal): Promise<boolean> {
    const { client, clock, members } = this.#options;
    const sentAt = clock.monotonic();
    const metadata =
      members === undefined
        ? lease.metadata
        : { ...lease.metadata, annotations: members.joined(lease) };
    // The Lease's version is a precondition, so this update fails after another candidate's write.
    const stored = await client.update(
      leases,
      { ...lease, metadata, spec: this.#spec(lease.spec) },
      this.#call(signal),
    );
    this.#extendTerm(stored, sentAt);
    return true;
  }

  /** Releases the Lease once no write of this process can be executed any more. */
  async #release(heldUntil: number): Promise<void> {
    const { client, clock, members } = this.#options;
    // Pending writes usually complete at once. After a write of unknown outcome, the leader waits
    // until the write can no longer be executed or the Lease has expired.
    while (this.#writes.settledAt > clock.monotonic() && clock.monotonic() < heldUntil) {
      await sleep(clock, Math.min(settlePollMs, this.#writes.settledAt - clock.monotonic()));
    }
    while (clock.monotonic() < heldUntil) {
      try {
        // Other members may have renewed the Lease since this process read it.
        if (members !== undefined) this.#observe(await this.#read(new AbortController().signal));
        const { lease } = this.observed;
        if (lease === undefined || this.#isHeldByOther) return;
        const stored = await client.update(leases, this.#released(lease), {
          deadlineMs: this.#renewDeadlineMs / 2,
        });
        this.#observe(stored);
        return;
      } catch (error) {
        if (members !== undefined && isConflict(error)) continue;
        this.#logger.debug('Lease could not be released and will expire', { error });
        return;
      }
    }
  }

  /** Returns the Lease without this member, or without a holder if no other member is live. */
  #released(lease: Lease): Lease {
    const { clock, members } = this.#options;
    const annotations = members?.left(lease);
    if (annotations !== undefined)
      return { ...lease, metadata: { ...lease.metadata, annotations } };
    return { ...lease, spec: releasedSpec(lease.spec, clock) };
  }

  #extendTerm(lease: Lease, sentAt: number): void {
    this.#observe(lease);
    this.#leadingUntil = sentAt + this.#renewDeadlineMs;
  }

  #observe(lease: Lease | undefined): void {
    this.observed.observe(lease);
    this.#options.members?.observe(lease);
  }

  get #holder(): string {
    return this.#options.members?.holder ?? this.#options.identity;
  }

  get #isHeldByOther(): boolean {
    const { holder } = this.observed;
    return holder !== undefined && holder !== this.#holder;
  }

  #spec(before: Lease['spec']): LeaseSpec {
    const { clock } = this.#options;
    return heldSpec(before, { holder: this.#holder, durationMs: this.#leaseDurationMs, clock });
  }

  #call(signal: AbortSignal) {
    return { signal, deadlineMs: this.#renewDeadlineMs / 2 };
  }

  /** Calls `callback` once, when `#leadingUntil` has passed without a renewal. */
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
