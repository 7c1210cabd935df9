import { daysOf, problemOfSpan, spanOf, spanOfMonth } from '../../../src/web/day-spans.ts';

describe('a span of days', () => {
  it.each([
    ['month', '2026-11-30', '2026-11-01', '2026-11-30'],
    ['month', '2026-12-01', '2026-12-01', '2026-12-01'],
    ['last-month', '2026-11-30', '2026-10-01', '2026-10-31'],
    ['last-month', '2026-01-15', '2025-12-01', '2025-12-31'],
    ['last-month', '2028-03-31', '2028-02-01', '2028-02-29'],
    ['week', '2026-03-03', '2026-02-25', '2026-03-03'],
    ['30-days', '2026-01-29', '2025-12-31', '2026-01-29'],
  ] as const)('is for %s on %s from %s to %s', (span, today, from, to) =>
    expect(spanOf(span, today)).toEqual({ from, to }),
  );

  it.each([
    ['2026-10', { from: '2026-10-01', to: '2026-10-31' }],
    ['2026-02', { from: '2026-02-01', to: '2026-02-28' }],
    ['2026-11', { from: '2026-11-01', to: '2026-11-15' }],
    ['2026-12', undefined],
    ['2026-13', undefined],
    ['2026-1', undefined],
    ['0001-01', undefined],
    ['', undefined],
    ['2026-10-01', undefined],
  ])('for the month %j on 2026-11-15 is %j', (month, days) =>
    expect(spanOfMonth(month, '2026-11-15')).toEqual(days),
  );

  it('has both ends among its days', () => {
    expect(daysOf({ from: '2026-02-27', to: '2026-03-01' })).toEqual([
      '2026-02-27',
      '2026-02-28',
      '2026-03-01',
    ]);
    expect(daysOf({ from: '2026-03-02', to: '2026-03-01' })).toEqual([]);
  });

  it.each([
    ['', '2026-03-01', 'Choose the first day.'],
    ['2026-3-1', '2026-03-01', 'Choose the first day.'],
    ['2026-03-01', '', 'Choose the last day.'],
    ['2026-03-01', '2026-13-01', 'Choose the last day.'],
    ['2026-03-02', '2026-03-01', 'The first day is after the last one.'],
    ['2025-03-01', '2026-03-02', 'Choose at most 366 days.'],
    ['2025-03-01', '2026-03-01', undefined],
    ['2026-03-01', '2026-03-01', undefined],
  ])('from %j to %j: %j', (from, to, problem) => expect(problemOfSpan({ from, to })).toBe(problem));
});
