import {
  availableOf,
  committedOf,
  deadAfterMs,
  emptyAccount,
  grantFor,
  withoutForgotten,
  roomOf,
  spentOf,
  unspentByOthers,
  withHolder,
  withoutDead,
  withoutHolder,
} from '../../../src/budget/account.ts';
import { maxAmount } from '../../../src/budget/money.ts';
import type { Account, Holder } from '../../../src/budget/record-store.ts';

const day = 24 * 3_600_000;
const nowMs = Date.UTC(2026, 10, 30);
const holder = (id: string, granted: number, spent = 0, renewedAtMs = nowMs): Holder => ({
  id,
  granted,
  spent,
  renewedAtMs,
});
const account = (more: Partial<Account>): Account => ({
  ...emptyAccount('default/Day/2026-11-30', 'USD'),
  ...more,
});
const shared = account({
  spent: 10,
  raised: 5,
  holders: [holder('a', 30, 20), holder('b', 40, 1)],
});

it('what is committed is what is spent, and the whole grants', () => {
  expect(committedOf(shared)).toBe(80);
  expect(spentOf(shared)).toBe(31);
  expect(unspentByOthers(shared, 'a')).toBe(39);
});

it.each([
  [100, 25, 55],
  [75, 0, 30],
  [10, 0, 0],
])('of a limit of %i, %i are left, and %i are room for one holder', (limit, left, room) => {
  expect(availableOf(shared, limit)).toBe(left);
  expect(roomOf(shared, 'a', limit)).toBe(room);
});

it('amounts beyond every limit leave nothing', () => {
  const full = account({ spent: maxAmount, raised: maxAmount, holders: [holder('a', maxAmount)] });
  expect(availableOf(full, maxAmount)).toBe(0);
});

it.each([
  ['nothing waits', 100, { used: 30, demands: [], ahead: 0 }, 30],
  ['all fits', 100, { used: 30, demands: [{ want: 20, least: 20 }], ahead: 5 }, 55],
  ['the rest is shared', 100, { used: 30, demands: [], ahead: 500 }, 47],
  ['a call gets a part', 40, { used: 30, demands: [{ want: 20, least: 5 }], ahead: 5 }, 40],
  ['a call does not fit', 40, { used: 30, demands: [{ want: 20, least: 11 }], ahead: 0 }, 30],
  [
    'a call that does not fit delays no other',
    40,
    {
      used: 30,
      demands: [
        { want: 20, least: 11 },
        { want: 10, least: 10 },
      ],
      ahead: 0,
    },
    40,
  ],
  ['the limit was lowered', 10, { used: 30, demands: [{ want: 1, least: 0 }], ahead: 5 }, 30],
])('grants where %s', (_case, room, needs, granted) => {
  expect(grantFor(room, needs)).toBe(granted);
});

it('a holder that is written again counts once', () => {
  const once = withHolder(shared, holder('a', 35, 21));
  expect(withHolder(once, holder('a', 35, 21))).toEqual(once);
  expect(committedOf(once)).toBe(85);
});

it('a holder settles once, and the rest of its grant is available', () => {
  const once = withoutHolder(shared, 'a', 22);
  expect(once).toMatchObject({ spent: 32, holders: [{ id: 'b' }] });
  expect(withoutHolder(once, 'a', 22)).toBe(once);
});

it('a holder that is silent for ten minutes is removed, and its whole grant is spent', () => {
  const silent = account({
    spent: 1,
    holders: [
      holder('a', 30, 20, nowMs - deadAfterMs - 1),
      holder('b', 40, 1, nowMs - deadAfterMs),
    ],
  });
  const after = withoutDead(silent, nowMs);
  expect(after).toMatchObject({ spent: 31, holders: [{ id: 'b' }] });
  expect(committedOf(after)).toBe(committedOf(silent));
});

it('a holder whose clock is far ahead is removed as one whose clock is far behind', () => {
  const ahead = account({ holders: [holder('a', 30, 20, nowMs + deadAfterMs + 1)] });
  expect(withoutDead(ahead, nowMs)).toMatchObject({ spent: 30, holders: [] });
  const slightly = account({ holders: [holder('a', 30, 20, nowMs + deadAfterMs)] });
  expect(withoutDead(slightly, nowMs)).toBe(slightly);
});

it('of too many holders, the oldest count as dead', () => {
  const many = account({
    holders: Array.from({ length: 102 }, (_, index) => holder(String(index), 10, 1, nowMs - index)),
  });
  const after = withoutDead(many, nowMs);
  expect([after.spent, after.holders.length, committedOf(after)]).toEqual([20, 100, 1_020]);
  expect(after.holders.map(({ id }) => id)).not.toContain('101');
});

it('of too many accounts, as many as there are too many are left out, the earliest first', () => {
  const firstDay = (index: number) => new Date(nowMs - index * day).toISOString().slice(0, 10);
  const many = Array.from({ length: 155 }, (_, index) =>
    account({
      key: `quota-${index}/Day/${firstDay(index % 10)}`,
      holders: index % 10 === 9 ? [holder('a', 1)] : [],
    }),
  );
  const after = withoutForgotten(many, nowMs);
  expect(many.filter((each) => !after.includes(each)).map(({ key }) => key)).toEqual(
    [8, 18, 28, 38, 48].map((index) => `quota-${index}/Day/${firstDay(8)}`),
  );
  const recent = many.filter((_, index) => index % 10 < 5 || index % 10 === 9);
  const recentMany = [...recent, ...recent];
  expect(withoutForgotten(recentMany, nowMs)).toEqual(recentMany);
});

it('a replica whose clock is years ahead forgets nothing that was spent', () => {
  const spent = [account({ spent: 30 })];
  expect(withoutForgotten(spent, nowMs + 4_000 * day)).toBe(spent);
});

it('an account without a dead holder stays the same object', () => {
  expect(withoutDead(shared, nowMs)).toBe(shared);
});
