import { signal, type ReadonlySignal } from '@preact/signals';
import { api, ApiError } from './api.ts';
import { Refresher } from './reading.ts';
import { addDays, dayOf, paceDays } from './days.ts';
import { serviceTime } from './times.ts';
import type { UsageReport } from './wire.ts';

/** Delay between two reads while the page is visible. */
const readIntervalMs = 60_000;
/** The same while the usage of a conversation changes. */
const changedIntervalMs = 10_000;
const stepMs = 2_000;

/** The budget of an owner, and the days from which a forecast is made. Rejects with ApiError. */
export function readBudget(owner?: string): Promise<UsageReport> {
  const today = dayOf(serviceTime());
  return api.get<UsageReport>('/api/v1/usage', {
    group_by: 'day',
    from: addDays(today, 1 - paceDays),
    to: today,
    owner,
  });
}

/** The budget of the session's owner, read again and again while a visible page needs it. */
export class BudgetWatch {
  readonly report = signal<UsageReport | undefined>(undefined);
  /** Number of changes of the usage of conversations. */
  readonly #changes: ReadonlySignal<number>;
  #seenChanges = 0;
  #readAt = -Infinity;
  readonly #reading = new Refresher(async () => {
    this.#readAt = Date.now();
    this.#seenChanges = this.#changes.peek();
    try {
      this.report.value = await readBudget();
    } catch (error) {
      // The next read follows soon, and the header shows that the gateway does not respond.
      if (!(error instanceof ApiError)) throw error;
    }
  });

  constructor(changes: ReadonlySignal<number>) {
    this.#changes = changes;
  }

  /** Reads until the returned function is called. */
  open(): () => void {
    const readIfDue = () => {
      if (document.visibilityState !== 'visible') return;
      const isChanged = this.#changes.peek() !== this.#seenChanges;
      if (Date.now() - this.#readAt >= (isChanged ? changedIntervalMs : readIntervalMs))
        void this.#reading.run();
    };
    const timer = setInterval(readIfDue, stepMs);
    document.addEventListener('visibilitychange', readIfDue);
    readIfDue();
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', readIfDue);
    };
  }
}
