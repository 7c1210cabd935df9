import type { Timer } from '@conversation-operator/base/clock';
import type { Runtime } from '@conversation-operator/base/runtime';

const retryDelayMs = 1000;

interface Options extends Pick<Runtime, 'clock' | 'logger'> {
  readonly run: (key: string) => void;
}

/**
 * A queue of keys that a later turn of the event loop processes, each key once, however often it
 * was added. A key that fails is retried.
 */
export class DeferredWork {
  readonly #options: Options;
  readonly #keys = new Set<string>();
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: Options) {
    this.#options = options;
  }

  add(key: string): void {
    this.#keys.add(key);
    this.#schedule(0);
  }

  #schedule(delayMs: number): void {
    if (this.#stopped) return;
    this.#timer ??= this.#options.clock.after(delayMs, () => {
      this.#timer = undefined;
      this.#drain();
    });
  }

  #drain(): void {
    const { run, logger } = this.#options;
    const keys = [...this.#keys];
    this.#keys.clear();
    for (const key of keys) {
      try {
        run(key);
      } catch (error) {
        logger.error('Background work of the control plane failed and will be retried', {
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
