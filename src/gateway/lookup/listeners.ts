import type { Clock } from '@conversation-operator/base/clock';

/** Listeners by name, of which nothing is kept for names without listeners. */
export class Listeners<Event = void> {
  readonly #byName = new Map<string, Set<(event: Event) => void>>();

  /** Number of listeners of all names. */
  get size(): number {
    return this.#byName.values().reduce((total, { size }) => total + size, 0);
  }

  /** Adds a listener, and returns the function that removes it. */
  on(name: string, listener: (event: Event) => void): () => void {
    const listeners = this.#byName.get(name) ?? new Set();
    this.#byName.set(name, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#byName.get(name) === listeners) this.#byName.delete(name);
    };
  }

  /** Waits for an event that `holds` accepts; resolves with undefined after the timeout. */
  next(
    name: string,
    clock: Clock,
    timeoutMs: number,
    holds: (event: Event) => boolean = () => true,
  ): Promise<Event | undefined> {
    return new Promise((resolve) => {
      const end = (event?: Event) => {
        remove();
        timer.cancel();
        resolve(event);
      };
      const remove = this.on(name, (event) => {
        if (holds(event)) end(event);
      });
      const timer = clock.after(timeoutMs, () => end());
    });
  }

  call(name: string, event: Event): void {
    for (const listener of [...(this.#byName.get(name) ?? [])]) listener(event);
  }
}
