import { OrderedSet } from '../../quota/ordered-set.ts';

interface Alarm {
  readonly at: number;
  readonly name: string;
}

const byTime = (one: Alarm, other: Alarm): number => one.at - other.at || (one.name === other.name ? 0 : one.name < other.name ? -1 : 1);

/** One time for each name, the earliest first. Every change takes logarithmic time. */
export class Alarms {
  readonly #byTime = new OrderedSet(byTime);
  readonly #byName = new Map<string, Alarm>();

  /** The earliest time; Infinity: there is none. */
  get at(): number {
    return this.#byTime.first?.at ?? Infinity;
  }

  /** Infinity takes the alarm away. */
  set(name: string, at: number): void {
    const before = this.#byName.get(name);
    if (before?.at === at) return;
    if (before !== undefined) this.#byTime.delete(before);
    this.#byName.delete(name);
    if (at === Infinity) return;
    const alarm = { at, name };
    this.#byName.set(name, alarm);
    this.#byTime.add(alarm);
  }

  /** Takes away one whose time has come, and returns its name. */
  takeDue(now: number): string | undefined {
    const first = this.#byTime.first;
    if (first === undefined || first.at > now) return undefined;
    this.set(first.name, Infinity);
    return first.name;
  }
}
