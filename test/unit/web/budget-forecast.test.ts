import { beginningOf, budgetForecast } from '../../../src/web/budget-forecast.ts';
import { topOf } from '../../../src/web/chart-scale.ts';
import type { UsageBudget, UsageItem } from '../../../src/web/wire.ts';
import { aBudget, anItem } from '../../support/page-usage.ts';

const at = (time: string) => Date.parse(time);
const daily = (from: number, to: number, cost: number): readonly UsageItem[] =>
  Array.from({ length: to - from + 1 }, (_, index) =>
    anItem(`2026-11-${String(from + index).padStart(2, '0')}`, {
      cost,
      input_tokens: 900,
      output_tokens: 100,
    }),
  );
const forecast = (
  budget: UsageBudget,
  now: string,
  days: readonly UsageItem[] = [],
  timeZone = 'UTC',
) => budgetForecast(budget, { now: at(now), days, timeZone });

describe('the beginning of the period of a budget', () => {
  it.each([
    ['Month', '2026-12-01T00:00:00Z', '2026-11-01T00:00:00Z'],
    ['Month', '2026-03-01T00:00:00Z', '2026-02-01T00:00:00Z'],
    ['Month', '2027-01-01T00:00:00Z', '2026-12-01T00:00:00Z'],
    // Midnight in Berlin, in Auckland and in Honolulu.
    ['Month', '2026-11-30T23:00:00Z', '2026-10-31T23:00:00Z'],
    ['Month', '2026-11-30T11:00:00Z', '2026-10-31T11:00:00Z'],
    ['Month', '2026-12-01T10:00:00Z', '2026-11-01T10:00:00Z'],
    ['Week', '2026-12-07T00:00:00Z', '2026-11-30T00:00:00Z'],
    ['Day', '2026-12-01T00:00:00Z', '2026-11-30T00:00:00Z'],
  ] as const)('of a %s that ends at %s is %s', (period, resets_at, beginning) =>
    expect(new Date(beginningOf(aBudget({ period, resets_at }))).toISOString()).toBe(
      beginning.replace('Z', '.000Z'),
    ),
  );
});

describe('the forecast', () => {
  it.each([
    [
      'the day on which the last 7 days say that it is used up',
      // $2 a day, $14 left: seven days from noon of the 16th.
      forecast(aBudget({ spent: 36 }), '2026-11-16T12:00:00Z', daily(10, 16, 13 / 7)),
      'At this pace it is used up on the 23rd.',
    ],
    [
      'what is used by the end where the budget lasts',
      forecast(aBudget({ spent: 20 }), '2026-11-16T00:00:00Z', daily(10, 15, 1)),
      'At this pace $35.00 of $50.00 are used by the end of the month.',
    ],
    [
      'the pace of the period while it is shorter than 7 days, whatever was before',
      // $4 in two days: $46 more last 23 days.
      forecast(aBudget({ spent: 4 }), '2026-11-03T00:00:00Z', [
        anItem('2026-10-31', { cost: 900 }),
      ]),
      'At this pace it is used up on the 26th.',
    ],
    [
      'nothing more where nothing was spent in the last 7 days',
      forecast(aBudget(), '2026-11-20T00:00:00Z', daily(1, 12, 2)),
      'At this pace $34.00 of $50.00 are used by the end of the month.',
    ],
    [
      'the day in the zone of the reader',
      forecast(
        aBudget({ spent: 36 }),
        '2026-11-16T12:00:00Z',
        daily(10, 16, 13 / 7),
        'Pacific/Auckland',
      ),
      'At this pace it is used up on the 24th.',
    ],
    [
      'the pace of the period for a budget of all owners, whose days are unknown',
      forecast(
        aBudget({ spent: 30, scope: 'Namespace' }),
        '2026-11-16T00:00:00Z',
        daily(10, 15, 0),
      ),
      'At this pace it is used up on the 26th.',
    ],
    [
      'today',
      forecast(aBudget({ spent: 49 }), '2026-11-16T12:00:00Z', daily(10, 16, 10)),
      'At this pace it is used up today.',
    ],
    [
      'a day of the week',
      forecast(
        aBudget({ period: 'Week', amount: 10, spent: 4, resets_at: '2026-11-30T00:00:00Z' }),
        '2026-11-25T00:00:00Z',
      ),
      'At this pace it is used up on Saturday.',
    ],
    [
      'a time of the day',
      forecast(
        aBudget({ period: 'Day', amount: 10, spent: 5, resets_at: '2026-11-26T00:00:00Z' }),
        '2026-11-25T08:30:00Z',
      ),
      'At this pace it is used up at 5:00 PM.',
    ],
    [
      'tokens, those of requests and answers together',
      forecast(
        aBudget({ currency: 'Tokens', amount: 1_000_000, spent: 20_000 }),
        '2026-11-16T00:00:00Z',
        daily(10, 15, 0),
      ),
      'At this pace 35,000 of 1,000,000 tokens are used by the end of the month.',
    ],
  ])('says %s', (_, text, expected) => expect(text).toBe(expected));

  it.each([
    ['is used up', forecast(aBudget({ spent: 50 }), '2026-11-16T00:00:00Z')],
    ['has just begun', forecast(aBudget({ spent: 1 }), '2026-11-01T00:59:59Z')],
    ['has ended', forecast(aBudget(), '2026-12-01T00:00:00Z')],
  ])('is absent where the budget %s', (_, text) => expect(text).toBeUndefined());

  it.each([
    [2, '2nd'],
    [3, '3rd'],
    [4, '4th'],
    [11, '11th'],
    [12, '12th'],
    [13, '13th'],
    [21, '21st'],
    [22, '22nd'],
  ])('names the day %i by its ordinal', (day, ordinal) => {
    // One dollar in half a day: the rest lasts until noon of that day.
    const budget = aBudget({ spent: 1, amount: 1 + 2 * (day - 1) });
    expect(forecast(budget, '2026-11-01T12:00:00Z')).toBe(
      `At this pace it is used up on the ${ordinal}.`,
    );
  });
});

describe('the top of the chart', () => {
  it.each([
    [0, 1],
    [0.004, 0.004],
    [0.0041, 0.005],
    [0.3, 0.3],
    [2.4, 3],
    [1, 1],
    [1.01, 2],
    [20, 20],
    [51, 60],
    [81, 100],
    [1_000_000, 1_000_000],
  ])('of %d is %d', (value, top) => expect(topOf(value)).toBeCloseTo(top, 9));
});
