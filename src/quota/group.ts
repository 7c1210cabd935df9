import type { QuotaRule } from '../resources/quota-rules.ts';
import { OrderedSet } from './ordered-set.ts';
import type { Slot } from './slot.ts';

const byUid = (one: Slot, other: Slot): number => (one.uid === other.uid ? 0 : one.uid < other.uid ? -1 : 1);
const byName = (one: Slot, other: Slot): number => (one.name === other.name ? byUid(one, other) : one.name < other.name ? -1 : 1);

/** First come, first served. Of the same moment, by name: the names of REST's own sandboxes are in the order of their creation. */
export const byRequest = (one: Slot, other: Slot): number => one.requestedAt - other.requestedAt || byName(one, other);
/** Unfinished work first, then the longest paused. */
export const byResume = (one: Slot, other: Slot): number =>
  Number(other.unfinished) - Number(one.unfinished) || one.pausedSince - other.pausedSince || byName(one, other);
const byAge = (one: Slot, other: Slot): number =>
  Number(one.confirming) - Number(other.confirming) || one.activeSince - other.activeSince || byName(one, other);
const idleOrder = (one: Slot, other: Slot): number => (one.idleSince === other.idleSince ? 0 : one.idleSince - other.idleSince);
const byIdleness = (one: Slot, other: Slot): number =>
  Number(one.confirming) - Number(other.confirming) || idleOrder(one, other) || byAge(one, other);
const byStart = (one: Slot, other: Slot): number => one.activeSince - other.activeSince || byName(one, other);

/** Those who share a limit: the sandboxes of one owner, or of a namespace. Every change takes logarithmic time. */
export class Group {
  #rule: QuotaRule | undefined;
  /** Slots that count against the limit. */
  taken = 0;
  /** Of those, the ones that nobody has asked to be given back yet. */
  holding = 0;
  readonly waiting = new OrderedSet(byRequest);
  readonly resumable = new OrderedSet(byResume);
  /** Those that may be paused now, in the order in which they would be. */
  #victims = new OrderedSet(byAge);
  /** Those that run, but not for long enough yet. */
  readonly #young = new OrderedSet(byStart);
  readonly #running = new Map<string, Slot>();

  get rule(): QuotaRule | undefined {
    return this.#rule;
  }

  set rule(rule: QuotaRule | undefined) {
    if (rule?.onExceeded === this.#rule?.onExceeded && rule?.minActiveMs === this.#rule?.minActiveMs) {
      this.#rule = rule;
      return;
    }
    const running = [...this.#running.values()];
    for (const slot of running) this.#removeRunning(slot);
    this.#rule = rule;
    this.#victims = new OrderedSet(rule?.onExceeded === 'PauseLongestIdle' ? byIdleness : byAge);
    for (const slot of running) this.#addRunning(slot);
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

  get victim(): Slot | undefined {
    return this.#victims.first;
  }

  /** Who would be paused after so many others, old enough or not yet: it does not change because time goes by. */
  victimAt(index: number): Slot | undefined {
    return index < this.#victims.size ? this.#victims.at(index) : this.#young.at(index - this.#victims.size);
  }

  get victims(): number {
    return this.#victims.size;
  }

  /** When the next of those that run is old enough to be paused. */
  get ripeAt(): number {
    const first = this.#young.first;
    return first === undefined ? Infinity : this.ripenedAt(first);
  }

  /** When one that runs is old enough to be paused. */
  ripenedAt(slot: Slot): number {
    return slot.activeSince + (this.#rule?.minActiveMs ?? 0);
  }

  add(slot: Slot): void {
    if (slot.taken) this.taken++;
    if (slot.state === 'starting' || slot.state === 'running') this.holding++;
    if (slot.state === 'waiting') this.waiting.add(slot);
    if (slot.state === 'resumable') this.resumable.add(slot);
    if (slot.state === 'running') this.#addRunning(slot);
  }

  remove(slot: Slot): void {
    if (slot.taken) this.taken--;
    if (slot.state === 'starting' || slot.state === 'running') this.holding--;
    if (slot.state === 'waiting') this.waiting.delete(slot);
    if (slot.state === 'resumable') this.resumable.delete(slot);
    if (slot.state === 'running') this.#removeRunning(slot);
  }

  get isEmpty(): boolean {
    return this.taken === 0 && this.waiting.size === 0 && this.resumable.size === 0;
  }

  /** Lets those that have become old enough be victims. */
  ripen(now: number): void {
    for (let slot = this.#young.first; slot !== undefined && this.ripenedAt(slot) <= now; slot = this.#young.first) {
      this.#young.delete(slot);
      this.#victims.add(slot);
    }
  }

  #addRunning(slot: Slot): void {
    this.#running.set(slot.uid, slot);
    if ((this.#rule?.minActiveMs ?? 0) > 0) this.#young.add(slot);
    else this.#victims.add(slot);
  }

  #removeRunning(slot: Slot): void {
    this.#running.delete(slot.uid);
    if (!this.#victims.delete(slot)) this.#young.delete(slot);
  }
}
