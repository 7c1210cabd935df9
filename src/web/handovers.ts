import { signal } from '@preact/signals';
import { api, ApiError } from './api.ts';
import { newestOf } from './handover-states.ts';
import { Refresher } from './reading.ts';
import type { HandoverRecord } from './wire.ts';

/** Delay between two reads while the page is visible. */
const readIntervalMs = 30_000;
/** The same while a conversation moves. */
const movingIntervalMs = 2_000;

/** Offers to the owner and by the owner, read again and again while the page is visible. */
export class Handovers {
  readonly list = signal<readonly HandoverRecord[]>([]);
  #readAt = 0;
  readonly #reading = new Refresher(async () => {
    this.#readAt = Date.now();
    try {
      this.list.value = await api.get<readonly HandoverRecord[]>('/api/v1/handovers', {});
    } catch (error) {
      // The next read follows soon, and the header shows that the gateway does not respond.
      if (!(error instanceof ApiError)) throw error;
    }
  });

  read = (): Promise<void> => this.#reading.run();

  /** Begins to read. Called once. */
  open(): void {
    const readIfDue = () => {
      if (document.visibilityState !== 'visible') return;
      const isMoving = this.list.peek().some(({ status }) => status === 'moving');
      if (Date.now() - this.#readAt >= (isMoving ? movingIntervalMs : readIntervalMs))
        void this.read();
    };
    setInterval(readIfDue, movingIntervalMs);
    document.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'visible') void this.read();
    });
    void this.read();
  }

  /** The newest handover of a conversation by its owner; undefined without one. */
  of = (conversationId: string, owner: string | undefined): HandoverRecord | undefined =>
    newestOf(this.list.value, conversationId, owner);
}
