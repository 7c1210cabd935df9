import { addDays, dayOf, startOfDay } from './days.ts';

/** The first day of the month `months` after the month of a day. */
export function startOfMonth(day: string, months: number): string {
  const date = new Date(startOfDay(day));
  return dayOf(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months, 1));
}

/** All days from the first to the last one, both included. */
export function daysOf({ from, to }: DaySpan): readonly string[] {
  const days: string[] = [];
  for (let day = from; day <= to; day = addDays(day, 1)) days.push(day);
  return days;
}

export const spans = {
  month: 'This month',
  'last-month': 'Last month',
  week: 'Last 7 days',
  '30-days': 'Last 30 days',
} as const;
export type Span = keyof typeof spans;
export const isSpan = (text: string): text is Span => Object.hasOwn(spans, text);

/** A span of days in UTC; both ends are included. */
export interface DaySpan {
  readonly from: string;
  readonly to: string;
}

export function spanOf(span: Span, today: string): DaySpan {
  switch (span) {
    case 'month':
      return { from: startOfMonth(today, 0), to: today };
    case 'last-month':
      return { from: startOfMonth(today, -1), to: addDays(startOfMonth(today, 0), -1) };
    case 'week':
      return { from: addDays(today, -6), to: today };
    case '30-days':
      return { from: addDays(today, -29), to: today };
  }
}

/** The days of a month as YYYY-MM up to today; undefined if it is no month, or has not begun. */
export function spanOfMonth(month: string, today: string): DaySpan | undefined {
  if (!/^2\d{3}-(0[1-9]|1[0-2])$/.test(month) || month > today.slice(0, 7)) return undefined;
  const from = `${month}-01`;
  const last = addDays(startOfMonth(from, 1), -1);
  return { from, to: last < today ? last : today };
}

/** Maximum days of a span, so that each has a bar that can be seen. */
const maxDays = 366;

const isDay = (text: string): boolean =>
  /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(startOfDay(text));

/** Why two texts are no span of days; undefined if they are one. */
export function problemOfSpan({ from, to }: DaySpan): string | undefined {
  if (!isDay(from)) return 'Choose the first day.';
  if (!isDay(to)) return 'Choose the last day.';
  if (from > to) return 'The first day is after the last one.';
  return addDays(from, maxDays) <= to ? `Choose at most ${maxDays} days.` : undefined;
}
