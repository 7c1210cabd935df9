import { parseAmount } from '../budget/money.ts';
import { addedCounters, totalOf, type UsageCounters, type UsageSums } from './usage-rows.ts';

export const usageGroups = ['day', 'model', 'template', 'conversation'] as const;
export type UsageGroup = (typeof usageGroups)[number];

/** Sums of a group of calls, as REST has them. `cost` is a decimal number of US dollars. */
export interface UsageItem {
  readonly key: string;
  readonly calls: number;
  readonly input_tokens: number;
  readonly cached_input_tokens: number;
  readonly output_tokens: number;
  readonly cost: string;
}

export interface UsageQuestion {
  /** First and last day, YYYY-MM-DD in UTC; undefined: any. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly groupBy: UsageGroup;
}

export interface UsageAnswer {
  /** By day in its order; else the dearest first. */
  readonly items: readonly UsageItem[];
  readonly total: UsageItem;
}

/** The sums of one month, or of one conversation. */
export interface RecordSums {
  readonly month?: string | undefined;
  readonly sums: UsageSums;
}

const itemOf = (key: string, counters: UsageCounters): UsageItem => ({
  key,
  calls: counters.calls,
  input_tokens: counters.inputTokens,
  cached_input_tokens: counters.cachedInputTokens,
  output_tokens: counters.outputTokens,
  cost: counters.cost,
});

const byCode = (first: string, second: string): number =>
  first === second ? 0 : first < second ? -1 : 1;

/**
 * Sums of the records of one scope: records of a namespace contain those of its owners again.
 *
 * A record has the sums of a conversation for its whole month. By conversation, each month that has
 * a day within the question counts as a whole.
 */
export function groupUsage(records: readonly RecordSums[], question: UsageQuestion): UsageAnswer {
  const { from = '', to = '9999-12-31', groupBy } = question;
  const groups = new Map<string, UsageCounters>();
  const add = (key: string, counters: UsageCounters) => {
    const known = groups.get(key);
    groups.set(key, known === undefined ? counters : addedCounters(known, counters));
  };
  for (const { month, sums } of records) {
    if (groupBy === 'conversation') {
      const isWithin =
        month === undefined || (month >= from.slice(0, 7) && month <= to.slice(0, 7));
      if (isWithin) for (const row of sums.conversations ?? []) add(row.name, row);
    } else {
      for (const row of sums.rows ?? [])
        if (row.day >= from && row.day <= to) add(row[groupBy], row);
    }
  }
  const costOf = ([, { cost }]: readonly [string, UsageCounters]) => parseAmount(cost, 'USD');
  const sorted = [...groups].sort(
    (a, b) => (groupBy === 'day' ? 0 : costOf(b) - costOf(a)) || byCode(a[0], b[0]),
  );
  return {
    items: sorted.map(([key, counters]) => itemOf(key, counters)),
    total: itemOf('total', totalOf([...groups.values()])),
  };
}

const columns = [
  'key',
  'calls',
  'input_tokens',
  'cached_input_tokens',
  'output_tokens',
  'cost',
] as const satisfies readonly (keyof UsageItem)[];

function cellOf(value: string | number): string {
  const text = String(value);
  // A spreadsheet runs a cell that begins like this as a formula, unless a quote mark precedes it.
  const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",;\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/**
 * The items as CSV (RFC 4180) with a header. A key that begins with `=`, `+`, `-`, `@`, a tab or a
 * carriage return has a `'` before it. One with a semicolon, which separates cells in some
 * countries, is in quotation marks.
 */
export const toCsv = (items: readonly UsageItem[]): string =>
  [columns, ...items.map((item) => columns.map((column) => item[column]))]
    .map((cells) => `${cells.map(cellOf).join(',')}\r\n`)
    .join('');
