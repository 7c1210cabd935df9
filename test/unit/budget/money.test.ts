import fc from 'fast-check';
import {
  amountOf,
  boundOf,
  formatAmount,
  maxAmount,
  parseAmount,
  saturated,
  shownAmount,
  shownSpent,
  storedAmount,
  sumOf,
} from '../../../src/budget/money.ts';

it.each([
  ['0', 'USD', 0],
  ['12.345678901', 'USD', 12_345_678_901],
  ['0.000000001', 'USD', 1],
  ['5', 'USD', 5_000_000_000],
  ['1.50', 'USD', 1_500_000_000],
  ['9000000', 'USD', maxAmount],
  ['250000', 'Tokens', 250_000],
] as const)('reads %s in %s', (text, unit, amount) => {
  expect(parseAmount(text, unit)).toBe(amount);
});

it.each([
  ['', 'USD'],
  ['-1', 'USD'],
  ['1e3', 'USD'],
  ['1.', 'USD'],
  ['.5', 'USD'],
  ['0.0000000001', 'USD'],
  ['9000000.000000001', 'USD'],
  ['99999999999999999999', 'USD'],
  ['NaN', 'USD'],
  [' 1', 'USD'],
  ['1.5', 'Tokens'],
] as const)('refuses %j in %s, and says what is allowed', (text, unit) => {
  expect(() => parseAmount(text, unit)).toThrow(/^must be .*for example .*; not "/);
});

it.each(['USD', 'Tokens'] as const)('each amount in %s is read as it was written', (unit) => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: maxAmount }), (amount) => {
      expect(parseAmount(formatAmount(amount, unit), unit)).toBe(amount);
    }),
  );
});

it('writes no digit more than is needed', () => {
  expect(formatAmount(1_500_000_000, 'USD')).toBe('1.5');
  expect(formatAmount(100_000_000_000, 'USD')).toBe('100');
  expect(formatAmount(1_000, 'Tokens')).toBe('1000');
});

it.each([
  [0.1, 'USD', 100_000_000],
  [345, 'USD', 345_000_000_000],
  [1_000_000, 'Tokens', 1_000_000],
] as const)('takes the number %d of a resource in %s', (value, unit, amount) => {
  expect(amountOf(value, unit)).toBe(amount);
});

it.each([-1, Number.NaN, Infinity, 1e308])('refuses the number %d of a resource', (value) => {
  expect(() => amountOf(value, 'USD')).toThrow(/must be an amount in USD from 0 to 9000000/);
});

it('a sum stays at the maximum, and counts what is no number as the maximum', () => {
  expect(sumOf(maxAmount, maxAmount, 1)).toBe(maxAmount);
  expect(sumOf(1, -5)).toBe(1);
  expect([saturated(Number.NaN), saturated(1e308), saturated(-1), saturated(1.2)]).toEqual([
    maxAmount,
    maxAmount,
    0,
    2,
  ]);
});

it.each([
  [1e9, 'USD', '$1'],
  [5e8, 'USD', '$0.50'],
  [123_456_789, 'USD', '$0.123456789'],
  [1_234_567, 'Tokens', '1,234,567 tokens'],
  [100, 'Tokens', '100 tokens'],
] as const)('shows %d of %s as %s', (amount, unit, text) => {
  expect(shownAmount(amount, unit)).toBe(text);
});

it.each([
  [1_500_008_000, 'USD', '$1.50'],
  [2_996_000_000, 'USD', '$2.99'],
  [999_960_000, 'USD', '$0.9999'],
  [150_000, 'USD', '$0.0001'],
  [35_008_000, 'USD', '$0.035'],
  [8_000, 'USD', '$0.000008'],
  [0, 'USD', '$0'],
  [1_234_567, 'Tokens', '1,234,567 tokens'],
] as const)('shows %d of %s that calls have cost as %s', (amount, unit, text) => {
  expect(shownSpent(amount, unit)).toBe(text);
});

it.each([
  ['12.5', 'USD', 12_500_000_000],
  ['9000000.1', 'USD', maxAmount],
  ['10000000', 'USD', maxAmount],
  ['9999999999999999.999999999', 'USD', maxAmount],
  ['1.5', 'Tokens', 1],
  ['9999999999999999', 'Tokens', maxAmount],
] as const)('reads %s in %s, as a person may have edited it', (text, unit, amount) => {
  expect(storedAmount(text, unit)).toBe(amount);
});

it.each(['', '-1', 'a', '1e3', '.5'])('refuses %j, which no resource can have', (text) => {
  expect(() => storedAmount(text, 'USD')).toThrow(/^must be/);
});

it.each([
  [0, 'USD', 0],
  [2.5, 'USD', 2_500_000_000],
  [1e12, 'USD', maxAmount],
  [1e12, 'Tokens', 1e12],
] as const)('takes the bound %d of a resource in %s', (value, unit, amount) => {
  expect(boundOf(value, unit)).toBe(amount);
});
