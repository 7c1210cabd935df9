import type { QuotaRule } from './rules.ts';
import { isFullFor, limitOf, makesRoom, type Limited, type Owner } from './owners.ts';
import { byEviction, evictableAt } from './eviction.ts';
import { firstOf, type Slot, type SlotOrder } from './slot.ts';
import type { Snapshot } from './snapshot.ts';

/** The forecast of one more start, or of a resume with a message or a run. */
export type AdmissionForecast =
  | { readonly outcome: 'admitted' }
  /** The start gets a slot that is being freed; nothing is evicted for it. */
  | { readonly outcome: 'follows'; readonly rule: QuotaRule }
  /**
   * The start waits until the victim's pod is deleted. The eviction comes at `at` (milliseconds
   * since 1970), or at once if that is past.
   */
  | {
      readonly outcome: 'pauses';
      readonly rule: QuotaRule;
      readonly victim: Slot;
      readonly at: number;
    }
  | { readonly outcome: 'waits'; readonly rule: QuotaRule }
  | { readonly outcome: 'rejected'; readonly rule: QuotaRule };

/** Numbers of the sandboxes that wait for a slot under a limit. */
interface Waiting {
  /** Newcomers with work: they come before one more start. */
  readonly demanding: number;
  /** Newcomers with work that could be admitted now. */
  readonly ready: number;
  /** Bare resumes: they come after one more start. */
  readonly bare: number;
  /** Number of starts without a sandbox, which are admitted before one more start. */
  readonly starts: number;
}

/** The outcome of one more start of an owner, or of any owner that has room itself. Pure. */
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
  // The limit of the owner decides first: a start that it keeps waiting, or for which it evicts,
  // needs no room in the namespace yet.
  if (own.outcome === 'admitted') return underAll();
  if (own.outcome !== 'follows') return own;
  const shared = underAll();
  return shared.outcome === 'admitted' ? own : shared;
}

/**
 * The forecast under this limit only, after the newcomers that come first: by default all of them,
 * as where no other limit keeps any of them waiting. Pure.
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
    // The slot was meant for a bare resume, which has another idle sandbox evicted instead.
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
  // Evictions for other newcomers, or for a lowered limit, come first.
  const victim = makesRoom(limited) ? nthOf(load.candidates, order, before) : undefined;
  return victim === undefined ? { outcome: 'waits', rule } : pauses(victim);
}

const nthOf = (slots: readonly Slot[], order: SlotOrder, index: number): Slot | undefined =>
  index === 0 ? firstOf(slots, order) : slots.toSorted(order)[index];
