import { quotaCaps, type QuotaCaps } from '../resources/quota-caps.ts';
import { quotaRules, type QuotaRules } from '../resources/quota-rules.ts';
import { forecastIn, stricterOf, type AdmissionForecast } from './admission-forecast.ts';
import type { Decision } from './decision.ts';
import { DueSlots } from './due-slots.ts';
import { evict, evictIdle } from './eviction.ts';
import { LimitGroup } from './limit-group.ts';
import { OwnerGroups, type OwnerGroup } from './owner-groups.ts';
import { failOverCap, reject } from './rejection.ts';
import { ResumeQueue } from './resume-queue.ts';
import type { Slot } from './slot.ts';
import type { TokenBucketOptions } from './token-bucket.ts';

export interface AdmissionQueueOptions {
  /** Rate of automatic resumes. */
  readonly resumeRate?: TokenBucketOptions;
}

/**
 * The sandboxes of one namespace under its quotas. `put` and `remove` report every change, and
 * `next` returns the next decision; each takes time logarithmic in the number of sandboxes. The
 * queue is pure: no I/O, and no clock but the `now` of the caller.
 *
 * `next` guarantees:
 * - A sandbox is admitted only where every limit has room: newcomers in the order of their
 *   requests, those with work to do before bare resumes, and all newcomers before automatic
 *   resumes.
 * - A sandbox is evicted only if it runs and no start is under way in it, or if it is stalled; and
 *   no more of them than newcomers wait beyond the slots that are being freed. While the namespace
 *   keeps newcomers waiting and makes no room, only a lowered limit evicts.
 * - A bare resume evicts only idle sandboxes. An automatic resume evicts none.
 * - Automatic resumes have a bounded rate.
 */
export class AdmissionQueue {
  readonly #slots = new Map<string, Slot>();
  /** The sandboxes of all owners, under the limits of the namespace. */
  readonly all = new LimitGroup();
  #rules = quotaRules([]);
  #caps = quotaCaps([]);
  readonly #resumes: ResumeQueue;
  readonly #owners: OwnerGroups;
  readonly #due = new DueSlots();
  #now = 0;

  constructor({ resumeRate }: AdmissionQueueOptions = {}) {
    this.#resumes = new ResumeQueue(resumeRate);
    this.#owners = new OwnerGroups(this.#rules, this.#caps, this.#resumes);
  }

  get rules(): QuotaRules {
    return this.#rules;
  }

  get caps(): QuotaCaps {
    return this.#caps;
  }

  setRules(rules: QuotaRules, caps = quotaCaps([])): void {
    this.#rules = rules;
    this.#caps = caps;
    this.all.rule = rules.namespace;
    this.all.cap = caps.namespace.maxSandboxes;
    this.#owners.setRules(rules, caps);
  }

  /**
   * Delays automatic resumes after the deletion of a quota, because another quota may replace it.
   */
  quotaDeleted(now: number): void {
    this.#resumes.quotaDeleted(now);
  }

  slot(uid: string): Slot | undefined {
    return this.#slots.get(uid);
  }

  slots(): Iterable<Slot> {
    return this.#slots.values();
  }

  group(owner: string): OwnerGroup | undefined {
    return this.#owners.get(owner);
  }

  groups(): Iterable<OwnerGroup> {
    return this.#owners.values();
  }

  get size(): number {
    return this.#slots.size;
  }

  /** Adds a slot, or replaces the slot of the same uid. A newcomer that waits keeps its place. */
  put(given: Slot): void {
    const old = this.#slots.get(given.uid);
    const slot =
      old?.state === 'waiting' && given.state === 'waiting'
        ? { ...given, requestedAt: old.requestedAt }
        : given;
    if (old !== undefined) this.#drop(old);
    this.#slots.set(slot.uid, slot);
    if (old?.state === 'resumable' && slot.taken) this.#resumes.resumed(slot.owner, this.#now);
    const group = this.#owners.of(slot);
    group.add(slot);
    this.all.add(slot);
    this.#due.add(slot);
    this.#owners.refresh(group);
  }

  remove(uid: string): Slot | undefined {
    const old = this.#slots.get(uid);
    if (old === undefined) return undefined;
    this.#slots.delete(uid);
    this.#drop(old);
    const group = this.#owners.of(old);
    this.#owners.refresh(group);
    this.#owners.prune(group);
    return old;
  }

  /**
   * The group of the owner is refreshed by the caller. An owner is immutable, so that a replaced
   * slot stays in its group.
   */
  #drop(slot: Slot): void {
    this.#owners.of(slot).remove(slot);
    this.all.remove(slot);
    this.#due.delete(slot);
  }

  /** The next decision; undefined until something changes or `wakeAt` has come. */
  next(now: number): Decision | undefined {
    this.#now = now;
    this.all.advance(now);
    this.#owners.advance(now);
    return (
      this.#due.release() ??
      this.#due.expire(now) ??
      failOverCap(this.all, this.#owners) ??
      this.#admit() ??
      reject(this.all, this.#owners) ??
      evict(this.all, this.#owners) ??
      evictIdle(this.all, this.#owners) ??
      this.#resume(now) ??
      this.#explain()
    );
  }

  /**
   * Time when `next` may change without any report, in milliseconds since 1970; Infinity: never.
   */
  get wakeAt(): number {
    const { demand, bareDemand } = this.#owners.totals;
    return Math.min(
      this.#owners.wakeAt,
      this.#due.expiryAt,
      this.all.excess(demand + bareDemand) > 0 ? this.all.candidates.nextEvictableAt : Infinity,
      this.all.hasRoom ? this.#resumes.readyAt : Infinity,
    );
  }

  /**
   * Forecast of one more start in a group: of an owner, or, with `all`, of any owner that has room
   * itself.
   */
  forecast(group: LimitGroup): AdmissionForecast {
    const { demand, bareDemand, readyDemanding } = this.#owners.totals;
    const namespace = forecastIn(this.all, {
      demanding: demand,
      ready: readyDemanding,
      bare: bareDemand,
    });
    if (group === this.all) return namespace;
    // `next` advances an owner within its limit only when it has newcomers.
    group.advance(this.#now);
    const owner = forecastIn(group);
    const isBlocked = group.holding <= group.limit && this.all.isFullFor(demand);
    return owner.outcome === 'pauses' && isBlocked ? namespace : stricterOf(owner, namespace);
  }

  #admit(): Decision | undefined {
    const slot = this.all.hasRoom ? this.#owners.firstReady : undefined;
    return slot === undefined ? undefined : { kind: 'admit', slot, resumed: false };
  }

  /**
   * Newcomers with room have been admitted before; the others wait for slots that an automatic
   * resume can't take either.
   */
  #resume(now: number): Decision | undefined {
    const slot = this.all.hasRoom ? this.#resumes.next(now) : undefined;
    return slot === undefined ? undefined : { kind: 'admit', slot, resumed: true };
  }

  #explain(): Decision | undefined {
    for (const slot of this.#due.unexplained) {
      const group = this.#owners.of(slot);
      const rule =
        group.ready === slot ? (this.all.rule ?? group.rule) : (group.rule ?? this.all.rule);
      if (rule !== undefined) return { kind: 'wait', slot, rule };
    }
    return undefined;
  }
}
