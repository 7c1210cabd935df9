import type { Load } from './load.ts';
import type { Owner } from './owner.ts';

/** Numbers that the owners of a namespace add up to. */
export interface Sums extends Pick<Load, 'taken' | 'holding' | 'stored' | 'demanding'> {
  /** Number of newcomers that only the limit of the namespace may keep waiting. */
  readonly wanted: number;
  /** Number of these newcomers that have work to do; the other newcomers are bare resumes. */
  readonly demand: number;
}

interface Counted extends Sums {
  readonly dueAt: number;
}

const nothing: Sums = { taken: 0, holding: 0, stored: 0, demanding: 0, wanted: 0, demand: 0 };

const plus = (sums: Sums, part: Sums, sign: 1 | -1): Sums => ({
  taken: sums.taken + sign * part.taken,
  holding: sums.holding + sign * part.holding,
  stored: sums.stored + sign * part.stored,
  demanding: sums.demanding + sign * part.demanding,
  wanted: sums.wanted + sign * part.wanted,
  demand: sums.demand + sign * part.demand,
});

/**
 * The sums over the owners of a namespace, and the owners that a decision has to visit. An owner is
 * counted anew only after a change, so that a decision costs little among many owners.
 */
export class OwnerCounts {
  readonly #counted = new Map<Owner, Counted>();
  /** Owners of whom a sandbox may need a decision, whatever the time. */
  readonly deciding = new Set<Owner>();
  /** Owners who may have a sandbox that resumes automatically. */
  readonly resuming = new Set<Owner>();
  #sums = nothing;
  /** The first due time of all owners; undefined after the owner that it came from has changed. */
  #dueAt: number | undefined = Infinity;

  get sums(): Sums {
    return this.#sums;
  }

  /** Counts an owner anew. */
  count(owner: Owner, now: number): void {
    this.forget(owner);
    const { wanted, demand, load } = owner;
    const { taken, holding, stored, demanding } = load;
    const dueAt = owner.dueAt(now);
    const counted = { taken, holding, stored, demanding, wanted, demand, dueAt };
    this.#counted.set(owner, counted);
    this.#sums = plus(this.#sums, counted, 1);
    if (owner.mayNeedDecision) this.deciding.add(owner);
    if (owner.mayResume) this.resuming.add(owner);
    if (this.#dueAt !== undefined) this.#dueAt = Math.min(this.#dueAt, dueAt);
  }

  forget(owner: Owner): void {
    const counted = this.#counted.get(owner);
    if (counted === undefined) return;
    this.#counted.delete(owner);
    this.#sums = plus(this.#sums, counted, -1);
    this.deciding.delete(owner);
    this.resuming.delete(owner);
    if (counted.dueAt < Infinity && this.#dueAt === counted.dueAt) this.#dueAt = undefined;
  }

  /**
   * The first time after now when a time limit ends or a delayed resume is due, and the owners with
   * time limits that have ended. Takes time in proportion to the number of owners when one is due,
   * or when the first one has changed.
   */
  due(now: number): { readonly nextAt: number; readonly owners: readonly Owner[] } {
    if (this.#dueAt !== undefined && this.#dueAt > now) return { nextAt: this.#dueAt, owners: [] };
    const owners: Owner[] = [];
    let nextAt = Infinity;
    for (const [owner, counted] of this.#counted) {
      let { dueAt } = counted;
      if (dueAt <= now) {
        dueAt = owner.dueAt(now);
        this.#counted.set(owner, { ...counted, dueAt });
      }
      if (dueAt <= now) owners.push(owner);
      else if (dueAt < nextAt) nextAt = dueAt;
    }
    this.#dueAt = owners.length > 0 ? now : nextAt;
    return { nextAt, owners };
  }
}
