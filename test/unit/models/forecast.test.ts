import { exhaustionOf, type ForecastBudget } from '../../../src/models/forecast.ts';
import type { UsageRow } from '../../../src/models/usage-rows.ts';

const dollar = 1_000_000_000;
const at = (time: string) => Date.parse(time);
const aBudget = (budget: Partial<ForecastBudget> = {}): ForecastBudget => ({
  unit: 'USD',
  limit: 100 * dollar,
  spent: 35 * dollar,
  startsAtMs: at('2026-11-01T00:00:00Z'),
  endsAtMs: at('2026-12-01T00:00:00Z'),
  ...budget,
});
const aRow = (day: string, cost: string, tokens = 0): UsageRow => ({
  day,
  model: 'gpt-5',
  template: 'openhands',
  calls: 1,
  inputTokens: tokens,
  cachedInputTokens: 0,
  outputTokens: 0,
  cost,
});
const daily = (first: number, last: number, cost: string) =>
  Array.from({ length: last - first + 1 }, (_, index) =>
    aRow(`2026-11-${String(first + index).padStart(2, '0')}`, cost),
  );

it.each<[string, readonly UsageRow[], Partial<ForecastBudget>, string, string | undefined]>([
  [
    'at the pace of the last 7 days',
    [...daily(1, 7, '0'), ...daily(8, 14, '5')],
    {},
    '2026-11-15T00:00:00Z',
    '2026-11-28T00:00:00Z',
  ],
  [
    'without the days before those',
    [...daily(1, 7, '100'), ...daily(8, 14, '5')],
    {},
    '2026-11-15T00:00:00Z',
    '2026-11-28T00:00:00Z',
  ],
  [
    'at the pace of the period where that is shorter',
    daily(1, 2, '10'),
    { spent: 20 * dollar },
    '2026-11-03T00:00:00Z',
    '2026-11-11T00:00:00Z',
  ],
  [
    'with today up to now',
    [aRow('2026-11-01', '10')],
    { spent: 10 * dollar },
    '2026-11-01T12:00:00Z',
    '2026-11-06T00:00:00Z',
  ],
  [
    'with the part of the first day',
    [aRow('2026-11-07', '10'), ...daily(8, 14, '0')],
    { limit: 40 * dollar },
    '2026-11-14T12:00:00Z',
    '2026-11-21T12:00:00Z',
  ],
  [
    'in tokens',
    [aRow('2026-11-01', '0', 1000)],
    { unit: 'Tokens', limit: 3000, spent: 1000 },
    '2026-11-02T00:00:00Z',
    '2026-11-04T00:00:00Z',
  ],
  [
    'for a budget without an end',
    daily(1, 1, '1'),
    { limit: 366 * dollar, spent: dollar, endsAtMs: Infinity },
    '2026-11-02T00:00:00Z',
    '2027-11-02T00:00:00Z',
  ],
  ['now, once it is', [], { spent: 100 * dollar }, '2026-11-15T00:00:00Z', '2026-11-15T00:00:00Z'],
  ['never, if it lasts', daily(8, 14, '4'), {}, '2026-11-15T00:00:00Z', undefined],
  ['never, if nothing is spent', [], {}, '2026-11-15T00:00:00Z', undefined],
  ['unknown in the first hour', daily(1, 1, '30'), {}, '2026-11-01T00:59:00Z', undefined],
])('a budget is used up %s', (_what, rows, budget, now, expected) => {
  const found = exhaustionOf(rows, aBudget(budget), at(now));
  expect(found === undefined ? undefined : new Date(found).toISOString()).toBe(
    expected?.replace('Z', '.000Z'),
  );
});
