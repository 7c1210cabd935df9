import type { BudgetUnit } from './record-store.ts';

const fractionDigits = { USD: 9, Tokens: 0 } as const satisfies Record<BudgetUnit, number>;

/**
 * Maximum amount: 9,000,000 USD in nanos, or as many tokens as that number says. Every integer up
 * to it, and the sum of it and a small one, is exact in a double.
 */
export const maxAmount = 9_000_000_000_000_000;

/** A text that is no amount. The message says what is allowed. */
export class AmountError extends Error {
  override readonly name = 'AmountError';
}

const allowed = {
  USD: 'must be an amount in USD from 0 to 9000000 with at most 9 digits after the point, for example "12.5"',
  Tokens: 'must be a whole number of tokens from 0 to 9000000000000000, for example "250000"',
} as const satisfies Record<BudgetUnit, string>;

/** Reads `"12.345678901"` as 12,345,678,901 nanos, exactly. Throws AmountError. */
export function parseAmount(text: string, unit: BudgetUnit): number {
  const digits = fractionDigits[unit];
  const [, whole, fraction = ''] = /^(\d{1,16})(?:\.(\d{1,9}))?$/.exec(text) ?? [];
  const value =
    whole === undefined || fraction.length > digits
      ? Number.NaN
      : Number(`${whole}${fraction.padEnd(digits, '0')}`);
  if (!(value <= maxAmount)) throw new AmountError(`${allowed[unit]}; not ${JSON.stringify(text)}`);
  return value;
}

/**
 * The amount of a text of a resource, which a person may have edited beyond what this program
 * writes: an amount beyond the maximum is the maximum, and digits too many are left out.
 */
export function storedAmount(text: string, unit: BudgetUnit): number {
  const [whole = '', fraction = ''] = text.split('.');
  if (Number(whole) >= maxAmount / 10 ** fractionDigits[unit]) return maxAmount;
  const kept = fraction.slice(0, fractionDigits[unit]);
  return parseAmount(kept === '' ? whole : `${whole}.${kept}`, unit);
}

/** The shortest text that `parseAmount` reads as this amount. */
export function formatAmount(amount: number, unit: BudgetUnit): string {
  const digits = fractionDigits[unit];
  const text = String(saturated(amount)).padStart(digits + 1, '0');
  const whole = text.slice(0, text.length - digits);
  const fraction = text.slice(text.length - digits).replace(/0+$/, '');
  return fraction === '' || digits === 0 ? whole : `${whole}.${fraction}`;
}

/** An amount for people: `$0.50`, or `12,000 tokens`. */
export function shownAmount(amount: number, unit: BudgetUnit): string {
  const [whole = '', fraction] = formatAmount(amount, unit).split('.');
  if (unit === 'Tokens') return `${whole.replaceAll(/\B(?=(\d{3})+$)/g, ',')} tokens`;
  return fraction === undefined ? `$${whole}` : `$${whole}.${fraction.padEnd(2, '0')}`;
}

const nanosPerDollar = 1_000_000_000;

/**
 * A sum of calls for people: from a dollar on in cents, below in hundredths of a cent. Sums are
 * rounded down, so that what is spent within a limit never looks like all of it, or more. An amount
 * under these is shown as it is, never as zero.
 */
export function shownSpent(amount: number, unit: BudgetUnit): string {
  if (unit === 'Tokens') return shownAmount(amount, unit);
  const step = nanosPerDollar / (amount >= nanosPerDollar ? 100 : 10_000);
  return shownAmount(Math.floor(amount / step) * step || amount, unit);
}

/**
 * The amount of a number of a resource: USD as nanos, rounded to the nearest, or whole tokens.
 * Throws AmountError for a number that is no amount.
 */
export function amountOf(value: number, unit: BudgetUnit): number {
  const amount = Math.round(value * 10 ** fractionDigits[unit]);
  if (!(amount >= 0 && amount <= maxAmount))
    throw new AmountError(`${allowed[unit]}; not ${String(value)}`);
  return amount;
}

/** The same where a number beyond the maximum stands for no bound. */
export const boundOf = (value: number, unit: BudgetUnit): number =>
  amountOf(Math.min(value, maxAmount / 10 ** fractionDigits[unit]), unit);

/** An integer from 0 to `maxAmount`: a fraction is rounded up, and NaN is the maximum. */
export function saturated(amount: number): number {
  if (Number.isNaN(amount)) return maxAmount;
  return Math.min(maxAmount, Math.max(0, Math.ceil(amount)));
}

/** A sum that stays at the maximum, so that an overflow never makes a budget look free. */
export const sumOf = (...amounts: readonly number[]): number =>
  amounts.reduce((sum, amount) => saturated(sum + saturated(amount)), 0);
