import {
  capFields,
  capsOf,
  quotaCaps,
  type Cap,
  type CapField,
} from '../../resources/quota-caps.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import type { ProblemCode } from '../errors/catalogue.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { Derived } from './derived.ts';
import type { ResourceLookup } from './resource-lookup.ts';
import type { Reservation, StoredTotals, Totals } from './stored-totals.ts';

/** A limit on what is stored, and how much of it is used. */
export interface CapUse extends Cap {
  readonly field: CapField;
  readonly current: number;
}

/** The total that each limit bounds, the problem of a request beyond it, and the unit in its text. */
const capKinds = {
  maxConversations: {
    total: 'conversations',
    problem: 'conversation-limit-exceeded',
    unit: 'conversations',
  },
  maxStoredBytes: {
    total: 'storedBytes',
    problem: 'stored-bytes-limit-exceeded',
    unit: 'bytes of conversations',
  },
  maxSandboxes: { total: 'sandboxes', problem: 'sandbox-limit-exceeded', unit: 'sandboxes' },
} as const satisfies Record<CapField, { total: keyof Totals; problem: ProblemCode; unit: string }>;
/** The problems that may refuse one more start, or a message. */
export const capProblems = Object.values(capKinds).map(({ problem }) => problem);

/**
 * The limits that the quotas of a namespace set on stored objects. The operator refuses objects
 * that pass no gateway.
 */
export class StorageCaps {
  readonly #lookup: Pick<ResourceLookup, 'quotas'>;
  readonly #totals: StoredTotals;
  readonly #caps = new Derived((quotas: readonly ConversationQuota[]) => quotaCaps(quotas));

  constructor(lookup: Pick<ResourceLookup, 'quotas'>, totals: StoredTotals) {
    this.#lookup = lookup;
    this.#totals = totals;
  }

  /** Every limit that holds for an owner. */
  of(owner: string): readonly CapUse[] {
    const caps = this.#caps.of(this.#lookup.quotas());
    return capFields.flatMap((field) =>
      capsOf(caps, owner, field).map((cap) => ({
        ...cap,
        field,
        current: (cap.scope === 'Owner' ? this.#totals.of(owner) : this.#totals.all)[
          capKinds[field].total
        ],
      })),
    );
  }

  stored(owner: string): Totals {
    return this.#totals.of(owner);
  }

  /**
   * Counts what is about to be stored. Throws where a limit has no room for it; what is stored
   * already is never refused.
   */
  reserve(owner: string, growth: Partial<Totals>): Reservation {
    for (const { field, scope, limit, current } of this.of(owner)) {
      const { total, problem, unit } = capKinds[field];
      const more = growth[total] ?? 0;
      if (more <= 0 || current + more <= limit) continue;
      const whose = scope === 'Owner' ? 'You have' : 'All owners together have';
      throw new ProblemError(
        problem,
        `${whose} ${current} ${unit}, and at most ${limit} may be stored. Delete conversations or sandboxes that are not needed.`,
        { usage: { limit, current } },
      );
    }
    return this.#totals.reserve(owner, growth);
  }

  /**
   * Counts what a write is about to store, as `reserve` does; a write that fails stores nothing.
   * @returns The result of the write. The caller releases the reservation when the caches show it.
   */
  async during<T>(
    owner: string,
    growth: Partial<Totals>,
    write: () => Promise<T>,
  ): Promise<{ readonly written: T; readonly reservation: Reservation }> {
    const reservation = this.reserve(owner, growth);
    try {
      return { written: await write(), reservation };
    } catch (error) {
      reservation.release();
      throw error;
    }
  }
}
