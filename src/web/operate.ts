import { signal } from '@preact/signals';
import { api, ApiError, messageOf } from './api.ts';
import { delayAfter } from './times.ts';
import type { OverviewRecord } from './wire.ts';

/** An answer that comes later counts as failed. */
const timeoutMs = 15_000;

export interface ReadFailure {
  readonly message: string;
  /** Failed reads in a row. */
  readonly failures: number;
  /** Time of the next read. */
  readonly nextAt: number;
}

/** The state of the service as the page /operate reads it, again and again while it is visible. */
export class ServiceState {
  readonly overview = signal<OverviewRecord | undefined>(undefined);
  readonly failure = signal<ReadFailure | undefined>(undefined);
  /** Whether the service has said that this session is no admin's. */
  readonly isForbidden = signal(false);
  /** Time of the last good answer. */
  readAt: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isReading = false;
  #isOpen = false;

  open(): () => void {
    this.#isOpen = true;
    document.addEventListener('visibilitychange', this.#onVisible);
    void this.read();
    return () => {
      this.#isOpen = false;
      document.removeEventListener('visibilitychange', this.#onVisible);
      clearTimeout(this.#timer);
    };
  }

  read = async (): Promise<void> => {
    if (this.#isReading) return;
    this.#isReading = true;
    clearTimeout(this.#timer);
    try {
      this.overview.value = await api.get<OverviewRecord>(
        '/api/v1/admin/overview',
        {},
        AbortSignal.timeout(timeoutMs),
      );
      this.readAt = Date.now();
      this.failure.value = undefined;
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#isReading = false;
    }
    if (!this.#isOpen || this.isForbidden.peek()) return;
    const delay = delayAfter(this.failure.peek()?.failures ?? 0);
    this.#timer = setTimeout(this.#onTime, delay);
  };

  #failed(error: unknown): void {
    const status = error instanceof ApiError ? error.problem.status : undefined;
    this.isForbidden.value = status === 403;
    const failures = (this.failure.peek()?.failures ?? 0) + 1;
    const nextAt = Date.now() + delayAfter(failures);
    this.failure.value = { message: messageOf(error), failures, nextAt };
  }

  #onTime = (): void => {
    if (document.visibilityState === 'visible') void this.read();
  };

  /** Figures of a page that was hidden are old. */
  #onVisible = (): void => {
    if (this.isForbidden.peek()) return;
    clearTimeout(this.#timer);
    this.#onTime();
  };
}
