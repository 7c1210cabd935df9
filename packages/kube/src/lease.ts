import type { Clock } from '@conversation-operator/base/clock';
import type { Lease } from './core.ts';

export type LeaseSpec = NonNullable<Lease['spec']>;

interface Holding {
  readonly holder: string;
  readonly durationMs: number;
  readonly clock: Clock;
}

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

/** Returns a Kubernetes MicroTime. The API server accepts only six fractional digits. */
const microTime = (clock: Clock): string =>
  `${new Date(clock.now()).toISOString().slice(0, -1)}000Z`;

/**
 * Returns the current time, or `previous` plus one microsecond if that is later. Each renewal of a
 * holder therefore changes the Lease, and every observer notices the renewal.
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

interface ObservedLeaseOptions {
  readonly clock: Clock;
  /** Time without a change after which a Lease without `leaseDurationSeconds` has expired. */
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

  /** The last observed Lease. Undefined if this process has observed none, or that none exists. */
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

  /** Holder of the Lease. Undefined if the Lease is free, or unchanged for its whole duration. */
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

/** Tracks until when the API server may still execute writes that were sent. */
export class WriteLedger {
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  #inFlight = 0;
  #inFlightUntil = Number.NEGATIVE_INFINITY;
  #unknownUntil = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, deadlineMs: number) {
    this.#clock = clock;
    this.#deadlineMs = deadlineMs;
  }

  /**
   * Records the start of a write. The caller calls `sent` whenever a connection gets the request,
   * because the deadline counts from then. The caller calls `ended` once, and passes whether it
   * knows the outcome of the write.
   */
  begin(): { readonly sent: () => void; readonly ended: (known: boolean) => void } {
    let until = 0;
    const sent = () => {
      until = this.#clock.monotonic() + this.#deadlineMs;
      this.#inFlightUntil = until;
    };
    const ended = (known: boolean) => {
      this.#inFlight--;
      if (!known) this.#unknownUntil = Math.max(this.#unknownUntil, until);
    };
    this.#inFlight++;
    sent();
    return { sent, ended };
  }

  /** Monotonic time after which no recorded write can be executed any more. */
  get settledAt(): number {
    return this.#inFlight > 0
      ? Math.max(this.#inFlightUntil, this.#unknownUntil)
      : this.#unknownUntil;
  }
}

interface LeaseMembersOptions {
  /** Identity that the Lease names as its holder, the same for all members. */
  readonly holder: string;
  /** Annotation of the Lease that lists the members. */
  readonly annotation: string;
  /** Identity of this process, unique over all processes and all time. */
  readonly identity: string;
  /** Time without a renewal after which a member no longer counts as live; default 15 s. */
  readonly leaseDurationMs?: number;
  readonly clock: Clock;
}

interface Member {
  readonly renewals: number;
  /** Monotonic time at which this process saw `renewals` change. */
  readonly at: number;
}

/**
 * The processes that hold one Lease together. Each member renews the Lease itself and counts its
 * renewals in an annotation, from which the other members see that it is live. A member that renews
 * within its own deadline is certain that no other holder has taken the Lease.
 */
export class LeaseMembers {
  readonly #options: LeaseMembersOptions;
  readonly #leaseDurationMs: number;
  #members = new Map<string, Member>();
  #renewals = 0;

  constructor(options: LeaseMembersOptions) {
    this.#options = options;
    this.#leaseDurationMs = options.leaseDurationMs ?? 15_000;
  }

  get holder(): string {
    return this.#options.holder;
  }

  /** Identities of the live members, sorted. */
  get live(): readonly string[] {
    const now = this.#options.clock.monotonic();
    return [...this.#members]
      .filter(([, { at }]) => now < at + this.#leaseDurationMs)
      .map(([identity]) => identity)
      .sort();
  }

  observe(lease: Lease | undefined): void {
    const now = this.#options.clock.monotonic();
    const known = this.#members;
    this.#members = new Map();
    for (const [identity, renewals] of this.#stored(lease)) {
      const before = known.get(identity);
      this.#members.set(identity, before?.renewals === renewals ? before : { renewals, at: now });
    }
  }

  /** Returns the annotations with which this process joins or renews the observed Lease. */
  joined(lease: Lease | undefined): Readonly<Record<string, string>> {
    return this.#annotations(lease, { [this.#options.identity]: ++this.#renewals });
  }

  /** Returns annotations that do not list this process; undefined if no other member is live. */
  left(lease: Lease): Readonly<Record<string, string>> | undefined {
    return this.#others().length === 0 ? undefined : this.#annotations(lease, {});
  }

  #others(): readonly (readonly [string, number])[] {
    return this.live
      .filter((identity) => identity !== this.#options.identity)
      .map((identity) => [identity, this.#members.get(identity)?.renewals ?? 0]);
  }

  #annotations(
    lease: Lease | undefined,
    own: Readonly<Record<string, number>>,
  ): Readonly<Record<string, string>> {
    const members = { ...Object.fromEntries(this.#others()), ...own };
    return { ...lease?.metadata.annotations, [this.#options.annotation]: JSON.stringify(members) };
  }

  /** Returns the members in the annotation; none if the Lease has another holder. */
  #stored(lease: Lease | undefined): readonly (readonly [string, number])[] {
    const text = lease?.metadata.annotations?.[this.#options.annotation];
    if (text === undefined || lease?.spec?.holderIdentity !== this.#options.holder) return [];
    try {
      const stored: unknown = JSON.parse(text);
      if (typeof stored !== 'object' || stored === null) return [];
      return Object.entries(stored).flatMap(([identity, renewals]: [string, unknown]) =>
        typeof renewals === 'number' ? [[identity, renewals] as const] : [],
      );
    } catch {
      // The annotation is not valid JSON. Every member adds itself again with its next renewal.
      return [];
    }
  }
}
