import type { QuotaRule } from '../resources/quota-rules.ts';
import { OrderedSet } from './ordered-set.ts';
import type { Slot } from './slot.ts';

const byUid = (one: Slot, other: Slot): number => (one.uid === other.uid ? 0 : one.uid < other.uid ? -1 : 1);
const byName = (one: Slot, other: Slot): number => (one.name === other.name ? byUid(one, other) : one.name < other.name ? -1 : 1);

/**
 * First come, first served; bare resumes after everything that has work to do. Of the same moment, by name: the names of REST's own
 * sandboxes are in the order of their creation.
 */
export const byRequest = (one: Slot, other: Slot): number =>
  Number(one.bare) - Number(other.bare) || one.requestedAt - other.requestedAt || byName(one, other);
/** Unfinished work first, then the longest paused. */
export const byResume = (one: Slot, other: Slot): number =>
  Number(other.unfinished) - Number(one.unfinished) || one.pausedSince - other.pausedSince || byName(one, other);
const byComeback = (one: Slot, other: Slot): number => one.comebackAt - other.comebackAt || byName(one, other);

/** Whose agent does no work, then what nobody asked for, then the others; whoever waits for a person's answer last. */
const rankOf = ({ state, automatic, confirming }: Slot): number => {
  if (state === 'starting') return 0;
  if (confirming) return 3;
  return automatic ? 1 : 2;
};
const byStart = (one: Slot, other: Slot): number => one.activeSince - other.activeSince || byName(one, other);
const byAge = (one: Slot, other: Slot): number => rankOf(one) - rankOf(other) || byStart(one, other);
const idleOrder = (one: Slot, other: Slot): number => (one.idleSince === other.idleSince ? 0 : one.idleSince - other.idleSince);
const byIdleness = (one: Slot, other: Slot): number => rankOf(one) - rankOf(other) || idleOrder(one, other) || byStart(one, other);

/** Times of creation are in whole seconds, written alike. */
const byCreation = (one: Slot, other: Slot): number => {
  const [before, after] = [one.sandbox.metadata.creationTimestamp, other.sandbox.metadata.creationTimestamp];
  return before === after ? byName(one, other) : before < after ? -1 : 1;
};

const isIdle = ({ idleSince }: Slot): boolean => idleSince < Infinity;

/** Those who share a limit: the sandboxes of one owner, or of a namespace. Every change takes logarithmic time. */
export class Group {
  #rule: QuotaRule | undefined;
  /** Slots that count against the limit. */
  taken = 0;
  /** Of those, the ones that nobody has asked to be given back yet. */
  holding = 0;
  /** Those that wait and have work to do: all but the bare resumes. */
  demanding = 0;
  /** Sandboxes that count for what may be stored. */
  stored = 0;
  maxStored = Infinity;
  /** Of those, the ones on which nobody has decided yet. */
  readonly undecided = new OrderedSet(byCreation);
  readonly waiting = new OrderedSet(byRequest);
  /** Those that may come back by themselves now. */
  readonly resumable = new OrderedSet(byResume);
  /** Those that come back by themselves later. */
  readonly #delayed = new OrderedSet(byComeback);
  /** Those that may be paused now, in the order in which they would be. */
  #victims = new OrderedSet(byAge);
  /** Of those, the ones whose agent has nothing to do. */
  #idleVictims = new OrderedSet(byAge);
  /** Those that run, but not for long enough yet, or are not stalled for long enough. */
  readonly #young = new OrderedSet<Slot>((one, other) => this.ripenedAt(one) - this.ripenedAt(other) || byName(one, other));
  readonly #pausable = new Map<string, Slot>();

  get rule(): QuotaRule | undefined {
    return this.#rule;
  }

  set rule(rule: QuotaRule | undefined) {
    if (rule?.onExceeded === this.#rule?.onExceeded && rule?.minActiveMs === this.#rule?.minActiveMs) {
      this.#rule = rule;
      return;
    }
    const pausable = [...this.#pausable.values()];
    for (const slot of pausable) this.#removePausable(slot);
    this.#rule = rule;
    const order = rule?.onExceeded === 'PauseLongestIdle' ? byIdleness : byAge;
    this.#victims = new OrderedSet(order);
    this.#idleVictims = new OrderedSet(order);
    for (const slot of pausable) this.#addPausable(slot);
  }

  get limit(): number {
    return this.#rule?.limit ?? Infinity;
  }

  get hasRoom(): boolean {
    return this.taken < this.limit;
  }

  /** Newcomers make room for themselves. */
  get makesRoom(): boolean {
    const policy = this.#rule?.onExceeded;
    return policy === 'PauseOldest' || policy === 'PauseLongestIdle';
  }

  /** How many have to go before the group is within its limit, with so many newcomers, where they make room for themselves. */
  excess(waiting: number): number {
    return this.holding + (this.makesRoom ? waiting : 0) - this.limit;
  }

  /** For whom one more has to go: those before it get a slot that is free or getting free. */
  get beneficiary(): Slot | undefined {
    return this.makesRoom ? this.waiting.at(Math.max(0, this.limit - this.holding)) : undefined;
  }

  /** The last that was created of those that are more than may be stored. */
  get oneTooMany(): Slot | undefined {
    return this.stored > this.maxStored ? this.undecided.last : undefined;
  }

  get victim(): Slot | undefined {
    return this.#victims.first;
  }

  /** Whom a bare resume may have paused. */
  get idleVictim(): Slot | undefined {
    return this.#idleVictims.first;
  }

  /** Whom a bare resume may have paused after so many others. */
  idleVictimAt(index: number): Slot | undefined {
    return this.#idleVictims.at(index);
  }

  /** Who would be paused after so many others, old enough or not yet: it does not change because time goes by. */
  victimAt(index: number): Slot | undefined {
    return index < this.#victims.size ? this.#victims.at(index) : this.#young.at(index - this.#victims.size);
  }

  get victims(): number {
    return this.#victims.size;
  }

  get idleVictims(): number {
    return this.#idleVictims.size;
  }

  /** How many come back by themselves, now or later. */
  get comingBack(): number {
    return this.resumable.size + this.#delayed.size;
  }

  /** When the next of those that run is old enough to be paused. */
  get ripeAt(): number {
    const first = this.#young.first;
    return first === undefined ? Infinity : this.ripenedAt(first);
  }

  /** When the next one that is delayed may come back. */
  get comebackAt(): number {
    return this.#delayed.first?.comebackAt ?? Infinity;
  }

  /** When one that runs is old enough to be paused, or one that is stalled has been so for long enough. */
  ripenedAt(slot: Slot): number {
    return slot.state === 'starting' ? slot.stalledAt : slot.activeSince + (this.#rule?.minActiveMs ?? 0);
  }

  add(slot: Slot): void {
    const { state } = slot;
    if (slot.stored) this.stored++;
    if (slot.undecided) this.undecided.add(slot);
    if (slot.taken) this.taken++;
    if (state === 'starting' || state === 'running') this.holding++;
    if (state === 'waiting') {
      this.waiting.add(slot);
      if (!slot.bare) this.demanding++;
    }
    if (state === 'resumable') (slot.comebackAt > 0 ? this.#delayed : this.resumable).add(slot);
    if (isPausable(slot)) this.#addPausable(slot);
  }

  remove(slot: Slot): void {
    const { state } = slot;
    if (slot.stored) this.stored--;
    if (slot.undecided) this.undecided.delete(slot);
    if (slot.taken) this.taken--;
    if (state === 'starting' || state === 'running') this.holding--;
    if (state === 'waiting') {
      this.waiting.delete(slot);
      if (!slot.bare) this.demanding--;
    }
    if (state === 'resumable' && !this.resumable.delete(slot)) this.#delayed.delete(slot);
    if (isPausable(slot)) this.#removePausable(slot);
  }

  get isEmpty(): boolean {
    return this.taken === 0 && this.waiting.size === 0 && this.comingBack === 0 && this.stored === 0;
  }

  /** Lets those that have become old enough be victims, and those whose delay is over come back. */
  ripen(now: number): void {
    for (let slot = this.#young.first; slot !== undefined && this.ripenedAt(slot) <= now; slot = this.#young.first) {
      this.#young.delete(slot);
      this.#addVictim(slot);
    }
    for (let slot = this.#delayed.first; slot !== undefined && slot.comebackAt <= now; slot = this.#delayed.first) {
      this.#delayed.delete(slot);
      this.resumable.add(slot);
    }
  }

  #addPausable(slot: Slot): void {
    this.#pausable.set(slot.uid, slot);
    if (slot.state === 'starting' || (this.#rule?.minActiveMs ?? 0) > 0) this.#young.add(slot);
    else this.#addVictim(slot);
  }

  #addVictim(slot: Slot): void {
    this.#victims.add(slot);
    if (isIdle(slot)) this.#idleVictims.add(slot);
  }

  #removePausable(slot: Slot): void {
    this.#pausable.delete(slot.uid);
    if (!this.#victims.delete(slot)) this.#young.delete(slot);
    else if (isIdle(slot)) this.#idleVictims.delete(slot);
  }
}

const isPausable = ({ state, stalledAt }: Slot): boolean => state === 'running' || (state === 'starting' && stalledAt < Infinity);
