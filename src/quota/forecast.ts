import type { QuotaRule } from './rules.ts';
import { isFullFor, limitOf, makesRoom, type Limited, type Owner } from './owners.ts';
import { byEviction, evictableAt } from './eviction.ts';
import { firstOf, type Slot, type SlotOrder } from './slot.ts';
import type { Snapshot } from './snapshot.ts';

/** The present decision of a quota about a new start, or about a resume with a message or a run. */
export type AdmissionForecast =
  | { readonly outcome: 'admitted' }
  /** The start gets a slot that is being freed, without an eviction. */
  | { readonly outcome: 'follows'; readonly rule: QuotaRule }
  /**
   * The start waits until the victim's pod is deleted. The eviction happens at `at` (milliseconds
   * since 1970), or at once if `at` has passed.
   */
  | {
      readonly outcome: 'pauses';
      readonly rule: QuotaRule;
      readonly victim: Slot;
      readonly at: number;
    }
  | { readonly outcome: 'waits'; readonly rule: QuotaRule }
  | { readonly outcome: 'rejected'; readonly rule: QuotaRule };

/** Sandboxes and starts that compete with a new start for the slots of a limit. */
interface Waiting {
  /** Number of waiting sandboxes with work, which are admitted before the new start. */
  readonly demanding: number;
  /** How many of the `demanding` sandboxes could be admitted now. */
  readonly ready: number;
  /** Number of waiting sandboxes without work, which are admitted after the new start. */
  readonly bare: number;
  /** Number of starts that have no sandbox yet, and that are admitted before the new start. */
  readonly starts: number;
}

/** The outcome of a new start of `owner`; if undefined, of any owner whose limit has room. Pure. */
export function forecast(
  snapshot: Snapshot,
  owner: Owner | undefined,
  now: number,
): AdmissionForecast {
  const { owners, all, wanted, demand } = snapshot.view(now);
  const ready = owners.filter((one) => one.ready?.bare === false).length;
  const underAll = (): AdmissionForecast =>
    forecastUnder(all, now, { demanding: demand, ready, bare: wanted - demand });
  if (owner === undefined) return underAll();
  const own = forecastUnder(owner, now);
  const isBlocked = owner.load.holding <= limitOf(owner) && isFullFor(all, demand);
  if (own.outcome === 'pauses' && isBlocked) return underAll();
  // The limit of the owner comes first: a start that waits or evicts under this limit needs no room
  // in the namespace yet.
  if (own.outcome === 'admitted') return underAll();
  if (own.outcome !== 'follows') return own;
  const shared = underAll();
  return shared.outcome === 'admitted' ? own : shared;
}

/**
 * The outcome of a new start if this were the only limit. `newcomers` are the waiting sandboxes to
 * consider; by default, all that wait under this limit. Pure.
 */
export function forecastUnder(
  limited: Limited,
  now: number,
  newcomers: Partial<Waiting> = {},
): AdmissionForecast {
  const { rule, load } = limited;
  const { demanding = load.demanding, ready = demanding, starts = 0 } = newcomers;
  const { bare = load.waiting.length - demanding } = newcomers;
  const limit = limitOf(limited);
  if (rule === undefined || load.taken + ready + starts < limit) return { outcome: 'admitted' };
  const order = byEviction(rule, now);
  const pauses = (victim: Slot): AdmissionForecast => ({
    outcome: 'pauses',
    rule,
    victim,
    at: evictableAt(victim, rule),
  });
  const before = load.holding + demanding + starts - limit;
  if (before < 0) {
    // The new start gets a slot before a waiting resume, which then evicts an idle sandbox.
    const isDisplaced = makesRoom(limited) && before + bare >= 0;
    const idle = isDisplaced
      ? load.candidates.filter(
          (slot) => slot.idleSince < Infinity && evictableAt(slot, rule) <= now,
        )
      : [];
    const displaced = nthOf(idle, order, before + bare);
    return displaced === undefined ? { outcome: 'follows', rule } : pauses(displaced);
  }
  if (rule.onExceeded === 'Reject') return { outcome: 'rejected', rule };
  // Evictions for other waiting sandboxes, or for a lowered limit, come first.
  const victim = makesRoom(limited) ? nthOf(load.candidates, order, before) : undefined;
  return victim === undefined ? { outcome: 'waits', rule } : pauses(victim);
}

const nthOf = (slots: readonly Slot[], order: SlotOrder, index: number): Slot | undefined =>
  index === 0 ? firstOf(slots, order) : slots.toSorted(order)[index];
