import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { BudgetUnit } from './record-store.ts';

export const periodKinds = ['Day', 'Week', 'Month'] as const;
export type PeriodKind = (typeof periodKinds)[number];

/** From `startMs` to before `endMs`. Periods of one kind and zone follow without a gap. */
export interface Period {
  readonly kind: PeriodKind;
  /** First day of the period in its zone: YYYY-MM-DD. */
  readonly firstDay: string;
  readonly startMs: number;
  readonly endMs: number;
}

/** A time for people, to the minute: `2026-03-01 23:00 UTC`. */
export const shownMinute = (ms: number): string =>
  `${new Date(ms).toISOString().slice(0, 'YYYY-MM-DDTHH:MM'.length).replace('T', ' ')} UTC`;

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;
/** More than any zone has differed from UTC, for the search of a midnight. */
const maxOffsetMs = 26 * 60 * minuteMs;
const maxCached = 1_000;

/** Whether the text is an IANA zone such as `Europe/Berlin`, or an offset such as `+05:30`. */
export function isTimeZone(text: string): boolean {
  try {
    new Intl.DateTimeFormat('en-US', { timeZone: text });
    return true;
  } catch {
    return false;
  }
}

/** Days are counted from 1970-01-01, without a zone. */
type DayNumber = number;

const textOf = (day: DayNumber): string => new Date(day * dayMs).toISOString().slice(0, 10);

/** First days of the period that has the day, and of the next one. Weeks begin on Monday. */
function boundsOf(kind: PeriodKind, day: DayNumber): readonly [first: DayNumber, next: DayNumber] {
  const date = new Date(day * dayMs);
  if (kind === 'Day') return [day, day + 1];
  if (kind === 'Week') {
    const monday = day - ((date.getUTCDay() + 6) % 7);
    return [monday, monday + 7];
  }
  const monthAt = (more: number) =>
    Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + more, 1) / dayMs;
  return [monthAt(0), monthAt(1)];
}

/**
 * Periods of budgets in the zone of the budget. A day has 23 or 25 hours where the clocks change,
 * begins after midnight where midnight is left out, and has no time at all where a zone has moved
 * over the date line.
 */
export class Periods {
  readonly #formats = recentlyUsed<Intl.DateTimeFormat>(maxCached);
  readonly #last = recentlyUsed<Period>(maxCached);

  /** The period around an instant. Throws RangeError for an unknown zone. */
  around(kind: PeriodKind, zone: string, atMs: number): Period {
    const key = `${kind} ${zone}`;
    const last = this.#last.get(key);
    if (last !== undefined && last.startMs <= atMs && atMs < last.endMs) return last;
    let [first, next] = boundsOf(kind, this.#dayAt(zone, atMs));
    let endMs = this.#startOf(zone, next);
    // Where the clock goes back over midnight, the old day is shown again after its end.
    while (endMs <= atMs) {
      [first, next] = boundsOf(kind, next);
      endMs = this.#startOf(zone, next);
    }
    const period = { kind, firstDay: textOf(first), startMs: this.#startOf(zone, first), endMs };
    this.#last.set(key, period);
    return period;
  }

  /** The day that the calendar of the zone shows at an instant, as YYYY-MM-DD. */
  day(zone: string, atMs: number): string {
    return textOf(this.#dayAt(zone, atMs));
  }

  #dayAt(zone: string, atMs: number): DayNumber {
    const format = this.#formats.get(zone) ?? this.#remember(zone);
    const part = { year: 0, month: 0, day: 0 };
    for (const { type, value } of format.formatToParts(atMs))
      if (type === 'year' || type === 'month' || type === 'day') part[type] = Number(value);
    return Date.UTC(part.year, part.month - 1, part.day) / dayMs;
  }

  #remember(zone: string): Intl.DateTimeFormat {
    const format = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      calendar: 'gregory',
      numberingSystem: 'latn',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
    });
    this.#formats.set(zone, format);
    return format;
  }

  /** The first minute whose day in the zone is this one or a later one. */
  #startOf(zone: string, day: DayNumber): number {
    let before = Math.floor((day * dayMs - maxOffsetMs) / minuteMs);
    let from = Math.ceil((day * dayMs + maxOffsetMs) / minuteMs);
    while (from - before > 1) {
      const middle = Math.floor((before + from) / 2);
      if (this.#dayAt(zone, middle * minuteMs) >= day) from = middle;
      else before = middle;
    }
    return from * minuteMs;
  }
}

/**
 * Key of the account of a budget in a period: another period and another unit are another account,
 * so a period never has to be reset, which two replicas could do twice.
 */
export const accountKey = (
  budget: string,
  { kind, firstDay }: Pick<Period, 'kind' | 'firstDay'>,
  unit: BudgetUnit,
): string => `${budget}/${kind}/${firstDay}${unit === 'USD' ? '' : `/${unit}`}`;

/** An instant after the period of an account in every zone; Infinity for one without a period. */
export function endOfAccountMs(key: string): number {
  const [, kind, firstDay] = /\/(Day|Week|Month)\/(\d{4}-\d\d-\d\d)(?:\/Tokens)?$/.exec(key) ?? [];
  const first = Date.parse(`${firstDay ?? ''}T00:00:00Z`);
  if (kind === undefined || Number.isNaN(first)) return Infinity;
  const [, next] = boundsOf(kind as PeriodKind, first / dayMs);
  return next * dayMs + maxOffsetMs;
}
