import type { Clock, Timer } from '@conversation-operator/base/clock';

/** Minimum time between two log lines with the same key. */
const repeatMs = 60_000;

/** The events of one key that have no log line: the newest, and their number. */
interface Repeats<T> {
  event: T | undefined;
  count: number;
}

interface RepeatedLinesOptions<T> {
  readonly clock: Clock;
  /** Writes a log line. `repeats` is the number of events that share the line. */
  readonly write: (event: T, more: { readonly repeats?: number }) => void;
}

/**
 * Log lines for events that may repeat quickly. The first event of a key gets its line at once, and
 * further ones share at most one line a minute. No event stays without a line. The callers bound
 * the number of keys in a minute, and thereby the memory of this class.
 */
export class RepeatedLines<T> {
  readonly #options: RepeatedLinesOptions<T>;
  /** Events since the last line of each key. An entry lasts about a minute. */
  readonly #recent = new Map<string, Repeats<T>>();
  #timer: Timer | undefined;

  constructor(options: RepeatedLinesOptions<T>) {
    this.#options = options;
  }

  record(key: string, event: T): void {
    const repeats = this.#recent.get(key);
    if (repeats === undefined) {
      this.#recent.set(key, { event: undefined, count: 0 });
      this.#options.write(event, {});
      this.#timer ??= this.#options.clock.after(repeatMs, () => this.#minute());
    } else {
      repeats.event = event;
      repeats.count += 1;
    }
  }

  /** Writes the lines for the events that have none yet. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const repeats of this.#recent.values()) this.#writeRepeats(repeats);
    this.#recent.clear();
  }

  #minute(): void {
    for (const [key, repeats] of this.#recent)
      if (!this.#writeRepeats(repeats)) this.#recent.delete(key);
    this.#timer =
      this.#recent.size === 0
        ? undefined
        : this.#options.clock.after(repeatMs, () => this.#minute());
  }

  /** Writes one line for the events in `repeats`, and returns whether there were any. */
  #writeRepeats(repeats: Repeats<T>): boolean {
    const { event, count } = repeats;
    if (event === undefined) return false;
    this.#options.write(event, { repeats: count });
    repeats.event = undefined;
    repeats.count = 0;
    return true;
  }
}
