import { OrderedSet } from './ordered-set.ts';

interface Deadline {
  readonly at: number;
  readonly name: string;
}

const byTime = (one: Deadline, other: Deadline): number =>
  one.at - other.at || (one.name === other.name ? 0 : one.name < other.name ? -1 : 1);

/**
 * A queue of names, each with one time, the earliest first. Every change takes logarithmic time.
 */
export class Deadlines {
  readonly #byTime = new OrderedSet(byTime);
  readonly #byName = new Map<string, Deadline>();

  /** The earliest time; Infinity: there is none. */
  get at(): number {
    return this.#byTime.first?.at ?? Infinity;
  }

  /** Infinity removes the name. */
  set(name: string, at: number): void {
    const before = this.#byName.get(name);
    if (before?.at === at) return;
    if (before !== undefined) this.#byTime.delete(before);
    this.#byName.delete(name);
    if (at === Infinity) return;
    const deadline = { at, name };
    this.#byName.set(name, deadline);
    this.#byTime.add(deadline);
  }

  /** Removes a name whose time has come, and returns it. */
  takeDue(now: number): string | undefined {
    const first = this.#byTime.first;
    if (first === undefined || first.at > now) return undefined;
    this.set(first.name, Infinity);
    return first.name;
  }
}
