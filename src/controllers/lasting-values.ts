import { LRUCache } from 'lru-cache';
import type { Clock } from '@conversation-operator/base/clock';

/** Maximum keys in memory. */
const maxRemembered = 20_000;

/**
 * Measures for how long values last, by the monotonic clock of this process. Each key has one
 * value, which another one replaces. Another process counts anew.
 */
export class LastingValues {
  readonly #clock: Clock;
  readonly #known = new LRUCache<string, { readonly value: unknown; readonly since: number }>({
    max: maxRemembered,
  });

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Milliseconds since this process has first observed that the key has this value. */
  lastsMs(key: string, value: unknown): number {
    const now = this.#clock.monotonic();
    const known = this.#known.get(key);
    if (known !== undefined && known.value === value) return now - known.since;
    this.#known.set(key, { value, since: now });
    return 0;
  }

  forget(key: string): void {
    this.#known.delete(key);
  }
}
