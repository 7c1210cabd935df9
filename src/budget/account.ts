import { endOfAccountMs } from './period.ts';
import { sumOf } from './money.ts';
import type { Account, BudgetUnit, Holder } from './record-store.ts';

// Why the money is safe. An account is a counter that replicas share by compare-and-swap, as they
// share a Lease in client-go, except that nothing here depends on a clock:
//
// - A replica may spend what its holder has been granted in the stored record, and nothing else.
//   committed = spent + the grants of all holders ≤ limit + raised, whenever a grant grows.
// - A grant shrinks only in a write of its own replica, which has stopped to use the difference
//   before the write is sent. Where a write's outcome is unknown, the replica uses the lesser of
//   what may be stored.
// - A holder that is silent for too long is removed by any replica, which counts its whole grant
//   as spent. A removal therefore never frees money, so a wrong clock, or a replica that wakes up
//   after an hour, cost accuracy alone: what that replica still spends has been counted.
// - The id of a holder is used once. A replica that does not find its holder drops what it had.

/** Duration without a renewal after which a holder is dead, and its whole grant counts as spent. */
export const deadAfterMs = 600_000;

/** Maximum number of holders of an account in the schema of UsageRecord. */
const maxHolders = 100;

const dayMs = 24 * 3_600_000;
/** Number of accounts beyond which a record forgets ended ones; the schema allows 200. */
const manyAccounts = 150;
/** Duration after its end for which an account stays in such a record. */
const keepEndedMs = 2 * dayMs;

export const emptyAccount = (key: string, unit: BudgetUnit): Account => ({
  key,
  unit,
  spent: 0,
  raised: 0,
  holders: [],
});

/** Amount that is spent, or may be spent by now. */
export const committedOf = ({ spent, holders }: Account): number =>
  sumOf(spent, ...holders.map(({ granted }) => granted));

/** Amount that is known to be spent. */
export const spentOf = ({ spent, holders }: Account): number =>
  sumOf(spent, ...holders.map((holder) => holder.spent));

/** Amount that nobody holds. */
export const availableOf = (account: Account, limit: number): number =>
  Math.max(0, sumOf(limit, account.raised) - committedOf(account));

/** The most that one holder may hold. */
export function roomOf(account: Account, id: string, limit: number): number {
  const others = account.holders.filter((holder) => holder.id !== id);
  return availableOf({ ...account, holders: others }, limit);
}

/**
 * Amount that other holders may still give back, as far as the record shows.
 * @param sinceMs Holders that have not renewed their share since do not count; default: all count.
 */
export const unspentByOthers = (account: Account, id: string, sinceMs = -Infinity): number =>
  sumOf(
    ...account.holders
      .filter((holder) => holder.id !== id && holder.renewedAtMs >= sinceMs)
      .map(({ granted, spent }) => Math.max(0, granted - spent)),
  );

/** A call that waits for a part of the account. */
export interface Demand {
  readonly want: number;
  readonly least: number;
}

export interface ShareNeeds {
  /** Amount that the holder has spent and has in flight. */
  readonly used: number;
  /** In the order in which the calls are served. */
  readonly demands: readonly Demand[];
  /** Amount to have ready for the next calls. */
  readonly ahead: number;
}

/**
 * A holder asks to be granted what it uses, what waits, and a part of the rest for the next calls.
 * The part gets smaller as the budget runs out, so that the last cents are left for calls of
 * all replicas. The room of a call that does not fit is left to others.
 */
export function grantFor(room: number, { used, demands, ahead }: ShareNeeds): number {
  let granted = used;
  for (const { want, least } of demands) {
    const left = room - granted;
    if (left >= want) granted += want;
    else if (left >= least) granted += Math.max(0, left);
  }
  return granted + Math.min(ahead, Math.max(0, Math.floor((room - granted) / 4)));
}

/** Takes, renews and gives back: the holder has these values from now on. */
export const withHolder = (account: Account, holder: Holder): Account => ({
  ...account,
  holders: [...account.holders.filter(({ id }) => id !== holder.id), holder],
});

/** Settles a holder that has nothing in flight, and gives back the rest of its grant. */
export const withoutHolder = (account: Account, id: string, spent: number): Account =>
  account.holders.some((holder) => holder.id === id)
    ? {
        ...account,
        spent: sumOf(account.spent, spent),
        holders: account.holders.filter((holder) => holder.id !== id),
      }
    : account;

/**
 * Removes holders that died, and the oldest of too many. Their calls may have been charged, so
 * nothing of them is given back.
 */
export function withoutDead(account: Account, nowMs: number): Account {
  const dead = account.holders
    .toSorted((a, b) => b.renewedAtMs - a.renewedAtMs)
    .filter(
      // A holder whose clock was far ahead would otherwise keep its grant for long after its death.
      ({ renewedAtMs }, index) =>
        Math.abs(nowMs - renewedAtMs) > deadAfterMs || index >= maxHolders,
    );
  return dead.reduce(
    (left, { id, granted, spent }) => withoutHolder(left, id, Math.max(granted, spent)),
    account,
  );
}

/**
 * Leaves out some accounts where there are too many: those whose period has ended, the earliest
 * first, and of which no holder is left that could settle into them. Danger: with an account, its
 * spending is forgotten, so a replica whose clock is wrong must not leave out more than it has to.
 * A record is for one month, and so has few accounts.
 */
export function withoutForgotten(accounts: readonly Account[], nowMs: number): readonly Account[] {
  if (accounts.length <= manyAccounts) return accounts;
  const ended = accounts
    .filter(({ key, holders }) => holders.length === 0 && endOfAccountMs(key) + keepEndedMs < nowMs)
    .sort((one, other) => endOfAccountMs(one.key) - endOfAccountMs(other.key));
  const forgotten = new Set(ended.slice(0, accounts.length - manyAccounts));
  return accounts.filter((account) => !forgotten.has(account));
}
