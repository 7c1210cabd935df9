import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';

const retryDelayMs = 1000;

/**
 * A queue of keys that a later turn of the event loop processes, each key once, however often it
 * was added. A key that fails is retried.
 */
export class DeferredWork {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #run: (key: string) => void;
  readonly #keys = new Set<string>();
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: {
    readonly clock: Clock;
    readonly logger: Logger;
    readonly run: (key: string) => void;
  }) {
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#run = options.run;
  }

  add(key: string): void {
    this.#keys.add(key);
    this.#schedule(0);
  }

  #schedule(delayMs: number): void {
    if (this.#stopped) return;
    this.#timer ??= this.#clock.after(delayMs, () => {
      this.#timer = undefined;
      this.#drain();
    });
  }

  #drain(): void {
    const keys = [...this.#keys];
    this.#keys.clear();
    for (const key of keys) {
      try {
        this.#run(key);
      } catch (error) {
        this.#logger.error('Background work of the control plane failed and will be retried', {
          key,
          error,
        });
        this.#keys.add(key);
      }
    }
    if (this.#keys.size > 0) this.#schedule(retryDelayMs);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#keys.clear();
  }
}
