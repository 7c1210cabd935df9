import { byResume } from '../../quota/group.ts';
import { OrderedSet } from '../../quota/ordered-set.ts';
import { Ramp, type RampOptions } from '../../quota/ramp.ts';
import type { Slot } from '../../quota/slot.ts';

/** The first of an owner to come back. */
interface Comeback {
  readonly slot: Slot;
  /** When one of the same owner came back last, in the order in which they did. */
  readonly turn: number;
}

/** Unfinished work first; then owners take turns. */
const byTurn = (one: Comeback, other: Comeback): number =>
  Number(other.slot.unfinished) - Number(one.slot.unfinished) || one.turn - other.turn || byResume(one.slot, other.slot);

/** Comebacks of a namespace at once, and mean time between two after that: each is a pod to schedule and a volume to attach. */
export const comebackRamp: RampOptions = { burst: 10, intervalMs: 1_000 };
/** No comebacks for so long after a quota has vanished: it may be made again, and what starts is not paused. */
const vanishedQuotaMs = 60_000;

/** What comes back by itself in a namespace: of each owner that has room the first one, at a bounded rate. Pure. */
export class Comebacks {
  readonly #ramp: Ramp;
  readonly #firsts = new OrderedSet(byTurn);
  readonly #byOwner = new Map<string, Comeback>();
  readonly #turns = new Map<string, number>();
  #count = 0;

  constructor(ramp: RampOptions = comebackRamp) {
    this.#ramp = new Ramp(ramp);
  }

  /** When the next one may come back; Infinity: there is none. */
  get readyAt(): number {
    return this.#firsts.size > 0 ? this.#ramp.readyAt : Infinity;
  }

  next(now: number): Slot | undefined {
    return this.readyAt <= now ? this.#firsts.first?.slot : undefined;
  }

  /** Which one of an owner is the first, if any. */
  offer(owner: string, slot: Slot | undefined): void {
    const before = this.#byOwner.get(owner);
    const turn = this.#turns.get(owner) ?? 0;
    if (before?.slot === slot && (slot === undefined || before?.turn === turn)) return;
    if (before !== undefined) this.#firsts.delete(before);
    if (slot === undefined) {
      this.#byOwner.delete(owner);
      return;
    }
    const comeback = { slot, turn };
    this.#byOwner.set(owner, comeback);
    this.#firsts.add(comeback);
  }

  /** One of an owner has come back. */
  took(owner: string, now: number): void {
    this.#ramp.take(now);
    this.#turns.set(owner, ++this.#count);
  }

  forgetOwner(owner: string): void {
    this.offer(owner, undefined);
    this.#turns.delete(owner);
  }

  quotaVanished(now: number): void {
    this.#ramp.hold(now + vanishedQuotaMs);
  }
}
