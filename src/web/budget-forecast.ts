import { addDays, dayMs, dayOf, paceDays, startOfDay } from './days.ts';
import { startOfMonth } from './day-spans.ts';
import { usedOf } from './money.ts';
import type { UsageBudget, UsageItem } from './wire.ts';

/** Minimum age of a period for a forecast, because a first call says nothing about a month. */
const minElapsedMs = 3_600_000;

/**
 * The beginning of the period that ends at `resets_at`. A month ends at midnight of a first day in
 * the zone of the budget, which is the first day in UTC that is nearest. A change to or from summer
 * time moves the result by an hour, which no forecast shows.
 */
export function beginningOf({ period, resets_at: end }: UsageBudget): number {
  const endMs = Date.parse(end);
  if (period !== 'Month') return endMs - (period === 'Week' ? 7 : 1) * dayMs;
  const first = startOfMonth(dayOf(endMs + 15 * dayMs), 0);
  return startOfDay(startOfMonth(first, -1)) + endMs - startOfDay(first);
}

const used = ({ currency }: UsageBudget, item: UsageItem): number =>
  currency === 'USD' ? item.cost : item.input_tokens + item.output_tokens;

/**
 * Use in each millisecond: of the last 7 days, or of the period if it has begun since. The days are
 * those of one owner, so the pace of a common budget is that of its period.
 */
function paceOf(budget: UsageBudget, days: readonly UsageItem[], now: number): number {
  const beginning = beginningOf(budget);
  const firstDay = addDays(dayOf(now), 1 - paceDays);
  const first = startOfDay(firstDay);
  if (first <= beginning || budget.scope === 'Namespace') return budget.spent / (now - beginning);
  const sum = days
    .filter(({ key }) => key >= firstDay && key <= dayOf(now))
    .reduce((total, item) => total + used(budget, item), 0);
  return sum / (now - first);
}

export interface ForecastOptions {
  readonly now: number;
  /** Usage by day, of the last 7 days at least. */
  readonly days: readonly UsageItem[];
  /** The zone of the reader; absent: that of the browser. */
  readonly timeZone?: string;
}

const ordinals = new Intl.PluralRules('en', { type: 'ordinal' });
const suffixes: Readonly<Record<string, string>> = { one: 'st', two: 'nd', few: 'rd' };
const ordinal = (number: number): string => `${number}${suffixes[ordinals.select(number)] ?? 'th'}`;

/** The moment at which a budget is used up, as words in a period of its kind. */
function moment(period: UsageBudget['period'], ms: number, options: ForecastOptions): string {
  const zone = options.timeZone === undefined ? {} : { timeZone: options.timeZone };
  const format = (parts: Intl.DateTimeFormatOptions) =>
    new Intl.DateTimeFormat('en', { ...zone, ...parts });
  const date = format({ dateStyle: 'short' });
  if (period === 'Day') return `at ${format({ timeStyle: 'short' }).format(ms)}`;
  if (date.format(ms) === date.format(options.now)) return 'today';
  if (period === 'Week') return `on ${format({ weekday: 'long' }).format(ms)}`;
  return `on the ${ordinal(Number(format({ day: 'numeric' }).format(ms)))}`;
}

const ends = { Day: 'day', Week: 'week', Month: 'month' } as const;

/**
 * The future of a budget at the pace of the last days, as a sentence. Undefined for a budget that
 * is used up, that has ended, or whose period has just begun.
 */
export function budgetForecast(budget: UsageBudget, options: ForecastOptions): string | undefined {
  const { amount, currency, period, spent } = budget;
  const { now, days } = options;
  const end = Date.parse(budget.resets_at);
  if (spent >= amount || now >= end || now - beginningOf(budget) < minElapsedMs) return undefined;
  const pace = paceOf(budget, days, now);
  const usedUpAt = now + (amount - spent) / pace;
  if (usedUpAt < end) return `At this pace it is used up ${moment(period, usedUpAt, options)}.`;
  const expected = spent + pace * (end - now);
  return `At this pace ${usedOf(currency, expected, amount)} are used by the end of the ${ends[period]}.`;
}
