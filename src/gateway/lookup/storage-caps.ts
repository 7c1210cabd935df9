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

const totalOf: Readonly<Record<CapField, keyof Totals>> = {
  maxConversations: 'conversations',
  maxStoredBytes: 'storedBytes',
  maxSandboxes: 'sandboxes',
};
const codes: Readonly<Record<CapField, ProblemCode>> = {
  maxConversations: 'conversation-limit-exceeded',
  maxStoredBytes: 'stored-bytes-limit-exceeded',
  maxSandboxes: 'sandbox-limit-exceeded',
};
/** The problems that may refuse one more start, or a message. */
export const capProblems = Object.values(codes);

const units: Readonly<Record<CapField, string>> = {
  maxConversations: 'conversations',
  maxStoredBytes: 'bytes of conversations',
  maxSandboxes: 'sandboxes',
};

/**
 * The limits that the quotas of a namespace set on stored objects. The operator refuses objects
 * that pass no gateway.
 */
export class StorageCaps {
  readonly #lookup: Pick<ResourceLookup, 'quotas'>;
  readonly #totals: StoredTotals;
  readonly #caps = new Derived((quotas: readonly ConversationQuota[]) => quotaCaps(quotas));

  constructor({
    lookup,
    totals,
  }: {
    readonly lookup: Pick<ResourceLookup, 'quotas'>;
    readonly totals: StoredTotals;
  }) {
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
          totalOf[field]
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
      const more = growth[totalOf[field]] ?? 0;
      if (more <= 0 || current + more <= limit) continue;
      const whose = scope === 'Owner' ? 'You have' : 'All owners together have';
      throw new ProblemError(
        codes[field],
        `${whose} ${current} ${units[field]}, and at most ${limit} may be stored. Delete conversations or sandboxes that are not needed.`,
        { usage: { limit, current } },
      );
    }
    return this.#totals.reserve(owner, growth);
  }
}
