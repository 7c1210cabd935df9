import { signal } from '@preact/signals';
import { api, messageOf } from './api.ts';
import { readBudget } from './budget-watch.ts';
import {
  isSpan,
  problemOfSpan,
  spanOf,
  spanOfMonth,
  type DaySpan,
  type Span,
} from './day-spans.ts';
import { dayOf } from './days.ts';
import { Refresher } from './reading.ts';
import { serviceTime } from './times.ts';
import type { UsageReport } from './wire.ts';

/** Delay between two reads while the page is visible. */
const readIntervalMs = 60_000;
export type Group = 'day' | 'model' | 'template' | 'conversation';

/** The days and the owner whose usage the page shows. */
export interface Choice extends DaySpan {
  /** Undefined: of the session's owner. */
  readonly owner: string | undefined;
}

export interface Shown {
  readonly choice: Choice;
  readonly reports: Readonly<Record<Group, UsageReport>>;
  /** The budget, and the last days from which its forecast is made. */
  readonly pace: UsageReport;
}

export const queryOf = (group: Group, { from, to, owner }: Choice) => ({
  group_by: group,
  from,
  to,
  owner,
});

async function read(choice: Choice): Promise<Shown> {
  const report = (group: Group) => api.get<UsageReport>('/api/v1/usage', queryOf(group, choice));
  const [pace, day, model, template, conversation] = await Promise.all([
    readBudget(choice.owner),
    report('day'),
    report('model'),
    report('template'),
    report('conversation'),
  ]);
  return { choice, pace, reports: { day, model, template, conversation } };
}

export const isSame = (one: Choice, other: Choice): boolean =>
  one.from === other.from && one.to === other.to && one.owner === other.owner;

/** The choices of the page, which are in its address, and the usage that was read for them. */
export class UsageState {
  /** `named`: the month in `month`. */
  readonly span = signal<Span | 'own' | 'named'>('month');
  month = '';
  /** Whether the address names a month that cannot be shown. */
  isMonthUnknown = false;
  readonly own = signal<DaySpan>(spanOf('month', dayOf(serviceTime())));
  readonly owner = signal<string | undefined>(undefined);
  readonly shown = signal<Shown | undefined>(undefined);
  readonly problem = signal<string | undefined>(undefined);
  #readAt = 0;
  readonly #reading = new Refresher(async () => {
    const { choice } = this;
    this.#readAt = Date.now();
    if (problemOfSpan(choice) !== undefined) return;
    try {
      const shown = await read(choice);
      if (!isSame(choice, this.choice)) return;
      this.shown.value = shown;
      this.problem.value = undefined;
    } catch (error) {
      if (isSame(choice, this.choice)) this.problem.value = messageOf(error);
    }
  });

  constructor() {
    const address = new URLSearchParams(location.search);
    const [from, to] = [address.get('from'), address.get('to')];
    const span = address.get('span') ?? '';
    this.owner.value = address.get('owner') ?? undefined;
    const month = address.get('month');
    if (isSpan(span)) this.span.value = span;
    if (month !== null) {
      this.month = month;
      this.isMonthUnknown = spanOfMonth(month, dayOf(serviceTime())) === undefined;
      this.span.value = this.isMonthUnknown ? 'month' : 'named';
      return;
    }
    if (from === null || to === null) return;
    this.span.value = 'own';
    this.own.value = { from, to };
  }

  get choice(): Choice {
    const span = this.span.value;
    const today = dayOf(serviceTime());
    const days =
      span === 'own'
        ? this.own.value
        : span === 'named'
          ? (spanOfMonth(this.month, today) ?? spanOf('month', today))
          : spanOf(span, today);
    return { ...days, owner: this.owner.value };
  }

  open(): () => void {
    const readIfDue = () => {
      if (document.visibilityState === 'visible' && Date.now() - this.#readAt >= readIntervalMs)
        void this.read();
    };
    const timer = setInterval(readIfDue, readIntervalMs / 10);
    document.addEventListener('visibilitychange', readIfDue);
    void this.read();
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', readIfDue);
    };
  }

  read = (): Promise<void> => this.#reading.run();

  choose(span: Span | 'own' | 'named'): void {
    // Own days begin with those that are shown.
    if (span === 'own') this.own.value = { from: this.choice.from, to: this.choice.to };
    this.span.value = span;
    this.#chosen();
  }

  chooseDays(days: Partial<DaySpan>): void {
    this.own.value = { ...this.own.value, ...days };
    this.#chosen();
  }

  chooseOwner(owner: string): void {
    const name = owner.trim() === '' ? undefined : owner.trim();
    if (name === this.owner.value) return;
    this.owner.value = name;
    this.#chosen();
  }

  /** The address of the page with these days, for the same owner. */
  addressOf(days: Readonly<Record<string, string>>): string {
    const owner = this.owner.value;
    const address = new URLSearchParams({ ...days, ...(owner === undefined ? {} : { owner }) });
    return address.size === 0 ? '/usage' : `/usage?${address.toString()}`;
  }

  #chosen(): void {
    const span = this.span.value;
    this.isMonthUnknown = false;
    const days =
      span === 'own'
        ? { ...this.own.value }
        : span === 'named'
          ? { month: this.month }
          : span === 'month'
            ? {}
            : { span };
    history.replaceState(null, '', this.addressOf(days));
    this.problem.value = undefined;
    void this.read();
  }
}
