import { warningOf } from '../../../src/web/budget-warning.ts';
import { maxCostOf } from '../../../src/web/max-cost.ts';
import { aBudget } from '../../support/page-usage.ts';

const now = Date.parse('2026-11-16T00:00:00Z');

describe('the warning about a budget', () => {
  it.each([
    ['below 80 %', aBudget({ spent: 39.99 }), undefined, ''],
    [
      'at 80 %',
      aBudget({ spent: 40 }),
      'near',
      '80 % of your budget is used: $40.00 of $50.00 this month.',
    ],
    [
      'below 90 %',
      aBudget({ spent: 44.99 }),
      'near',
      '89 % of your budget is used: $44.99 of $50.00 this month.',
    ],
    [
      'at 90 %',
      aBudget({ spent: 45, period: 'Week' }),
      'nearer',
      '90 % of your budget is used: $45.00 of $50.00 this week.',
    ],
    [
      'just below all',
      aBudget({ spent: 49.999 }),
      'nearer',
      '99 % of your budget is used: $50.00 of $50.00 this month.',
    ],
    [
      'at all of it',
      aBudget({ spent: 50, period: 'Day' }),
      'used-up',
      'Your budget is used up: $50.00 of $50.00 today. Agents get no more answers of models.',
    ],
    [
      'above it, in tokens',
      aBudget({ currency: 'Tokens', amount: 1000, spent: 1200 }),
      'used-up',
      'Your budget is used up: 1,200 of 1,000 tokens this month. Agents get no more answers of models.',
    ],
    [
      'of all owners together',
      aBudget({ scope: 'Namespace', spent: 41 }),
      'near',
      '82 % of the common budget is used: $41.00 of $50.00 this month.',
    ],
    [
      'after the end of its period',
      aBudget({ spent: 50, resets_at: '2026-11-16T00:00:00Z' }),
      undefined,
      '',
    ],
    ['without a budget', null, undefined, ''],
    ['before it is known', undefined, undefined, ''],
  ])('%s', (_, budget, level, text) => {
    const warning = warningOf(budget, now);
    expect(warning?.level).toBe(level);
    expect(warning?.text ?? '').toBe(text);
  });
});

describe('the maximum cost of a start', () => {
  it.each([
    ['', {}],
    ['  ', {}],
    ['2', { value: 2 }],
    [' $2.50 ', { value: 2.5 }],
    ['.5', { value: 0.5 }],
  ])('reads %j', (text, result) => expect(maxCostOf(text)).toEqual(result));

  it.each(['0', '0.00', '-1', '1e3', 'two', '1,5', 'Infinity', '9'.repeat(400)])(
    'refuses %j',
    (text) =>
      expect(maxCostOf(text)).toEqual({ problem: expect.stringContaining('above 0') as string }),
  );
});
