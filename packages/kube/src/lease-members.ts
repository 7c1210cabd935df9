import type { Clock } from '@conversation-operator/base/clock';
import type { Lease } from './core.ts';

export interface LeaseMembersOptions {
  /** Identity that the Lease names as its holder, the same for all members. */
  readonly holder: string;
  /** Annotation of the Lease that lists the members. */
  readonly annotation: string;
  /** Identity of this process, unique over all processes and all time. */
  readonly identity: string;
  /** Time without a renewal after which a member no longer counts. Default 15 s. */
  readonly leaseDurationMs?: number;
  readonly clock: Clock;
}

interface Member {
  readonly renewals: number;
  /** Local time at which the number of renewals has changed. */
  readonly at: number;
}

/**
 * The processes that hold one Lease together. Each member renews the Lease by itself and counts its
 * renewals in an annotation, so that the others know which members live. A member that renews
 * within its own deadline is certain that no other holder has taken the Lease, as the only holder
 * of a Lease is.
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

  /** Identities of the members that live, in the order of their names. */
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

  /** Returns the annotations of an observed Lease that this process joins or renews. */
  joined(lease: Lease | undefined): Readonly<Record<string, string>> {
    return this.#annotations(lease, { [this.#options.identity]: ++this.#renewals });
  }

  /**
   * Returns the annotations of an observed Lease that this process leaves; undefined when no other
   * member lives, so that the Lease has no holder any more.
   */
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

  /** Members by the annotation. The members of another holder are no members of this one. */
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
      // A member that is missing here joins again with its next renewal.
      return [];
    }
  }
}
