import type { Clock, Timer } from '@conversation-operator/base/clock';

/** Time after which repetitions without a line of their own get a line together. */
const repeatMs = 60_000;

interface RepeatsOptions<T> {
  readonly clock: Clock;
  /** Repetitions of one name that get a line each, before the others are counted. */
  readonly linesAtOnce: number;
  /** Maximum names with an entry of their own; all further names share one entry. */
  readonly maxNames: number;
  /** Writes a line. `count`: the line stands for that many, of which `item` is the last one. */
  readonly write: (item: T, count?: number) => void;
}

/** The repetitions of one name since its last line: the newest one, and their number. */
interface Entry<T> {
  lines: number;
  last: T | undefined;
  count: number;
}

/**
 * Bounds the lines about what repeats: the first repetitions of a name get a line each, and those
 * after them one line a minute, with their number. No repetition is left out of the number.
 */
export class Repeats<T> {
  readonly #options: RepeatsOptions<T>;
  /** An entry lasts until a minute passes without a repetition. */
  readonly #entries = new Map<string, Entry<T>>();
  #timer: Timer | undefined;

  constructor(options: RepeatsOptions<T>) {
    this.#options = options;
  }

  record(name: string, item: T): void {
    const { clock, linesAtOnce, write } = this.#options;
    const entry = this.#entryOf(name);
    this.#timer ??= clock.after(repeatMs, () => this.#minute());
    if (entry.lines < linesAtOnce) {
      entry.lines += 1;
      write(item);
      return;
    }
    entry.last = item;
    entry.count += 1;
  }

  /** Writes the lines about what has none yet. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const entry of this.#entries.values()) this.#writeCount(entry);
    this.#entries.clear();
  }

  #entryOf(name: string): Entry<T> {
    // No client address, and no list of names, is empty.
    const key = this.#entries.has(name) || this.#entries.size < this.#options.maxNames ? name : '';
    const known = this.#entries.get(key);
    if (known !== undefined) return known;
    const entry = { lines: 0, last: undefined, count: 0 };
    this.#entries.set(key, entry);
    return entry;
  }

  #minute(): void {
    for (const [name, entry] of this.#entries)
      if (!this.#writeCount(entry)) this.#entries.delete(name);
    this.#timer =
      this.#entries.size === 0
        ? undefined
        : this.#options.clock.after(repeatMs, () => this.#minute());
  }

  /** Writes one line for the counted repetitions, and returns whether there were any. */
  #writeCount(entry: Entry<T>): boolean {
    const { last, count } = entry;
    if (last === undefined) return false;
    this.#options.write(last, count);
    entry.last = undefined;
    entry.count = 0;
    return true;
  }
}
