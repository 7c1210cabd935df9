import type { Clock } from '@conversation-operator/base/clock';
import { LRUCache } from 'lru-cache';

/** Maximum time for which a cache need not show an object that was just created. */
const unseenMs = 1_000;
const maxRemembered = 500;

/**
 * Objects that this process has just created and that a cache does not show yet, by the uid of the
 * object that they belong to. A reconcile in between would ask the API server for them, or create
 * them again. A memory that is older than a second counts no more: the object may be gone without
 * an event.
 */
export class JustMade<T extends object> {
  readonly #clock: Clock;
  readonly #made = new LRUCache<string, { readonly object: T; readonly at: number }>({
    max: maxRemembered,
  });

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** The object that was remembered last; `cached` where there is one. */
  get(uid: string, cached: T | undefined): T | undefined {
    const made = this.#made.get(uid);
    if (made === undefined) return cached;
    if (cached === undefined && this.#clock.monotonic() - made.at < unseenMs) return made.object;
    this.#made.delete(uid);
    return cached;
  }

  /** Remembers an object, unless the cache shows one or the object is remembered already. */
  remember(uid: string, object: T | undefined, cached: T | undefined): void {
    if (object === undefined || cached !== undefined || this.#made.get(uid) !== undefined) return;
    this.#made.set(uid, { object, at: this.#clock.monotonic() });
  }
}
