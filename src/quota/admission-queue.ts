import { quotaCaps, type QuotaCaps } from '../resources/quota-caps.ts';
import { ownerRule, quotaRules, type QuotaRules } from '../resources/quota-rules.ts';
import { forecastIn, stricterOf, type AdmissionForecast } from './admission-forecast.ts';
import type { Decision } from './decision.ts';
import { DueSlots } from './due-slots.ts';
import { evict, evictIdle } from './eviction.ts';
import { LimitGroup } from './limit-group.ts';
import { OrderedSet } from './ordered-set.ts';
import { OwnerGroups, type OwnerGroup } from './owner-groups.ts';
import { failOverCap, reject } from './rejection.ts';
import { ResumeQueue } from './resume-queue.ts';
import { byCreation } from './slot-order.ts';
import type { Slot } from './slot.ts';
import type { TokenBucketOptions } from '@conversation-operator/base/token-bucket';

const waitsAsSpare = ({ spare, state }: Slot): boolean => spare && state === 'suspended';

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
 * - A spare of a pool is admitted only while nothing else waits or may resume, and evicts none.
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
  /** Spares without a slot, the one that was created first at the front. */
  readonly #spares = new OrderedSet(byCreation);
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

  /** The groups of the owners, without that of the spares. */
  groups(): Iterable<OwnerGroup> {
    return this.#owners.values();
  }

  /** Number of stored spares. */
  get storedSpares(): number {
    return this.#owners.get('')?.stored ?? 0;
  }

  /** Number of spares for which `maxSandboxes` of the namespace leaves room. */
  get roomForSpares(): number {
    const limit = this.all.cap?.limit ?? Infinity;
    return Math.max(0, limit - (this.all.stored - this.storedSpares));
  }

  /**
   * Whether a start of an owner may claim a spare now: the owner has room, and no sandbox
   * waits for the place of the spare. The limits of the namespace count the spare already.
   */
  mayClaim(owner: string): boolean {
    const { demand, bareDemand } = this.#owners.totals;
    const group = this.#owners.get(owner);
    const hasRoom =
      group === undefined
        ? (ownerRule(this.#rules, owner)?.limit ?? Infinity) > 0
        : group.hasRoom && group.waiting.size === 0;
    return hasRoom && demand + bareDemand === 0;
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
    if (waitsAsSpare(slot)) this.#spares.add(slot);
    this.#owners.refresh(group);
    if (old !== undefined && old.owner !== slot.owner) this.#leave(this.#owners.of(old));
  }

  remove(uid: string): Slot | undefined {
    const old = this.#slots.get(uid);
    if (old === undefined) return undefined;
    this.#slots.delete(uid);
    this.#drop(old);
    this.#leave(this.#owners.of(old));
    return old;
  }

  #leave(group: OwnerGroup): void {
    this.#owners.refresh(group);
    this.#owners.prune(group);
  }

  /**
   * The group of the owner is refreshed by the caller. A replaced slot stays in its group, unless
   * it was a spare that an owner has claimed.
   */
  #drop(slot: Slot): void {
    if (waitsAsSpare(slot)) this.#spares.delete(slot);
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
      this.#admitSpare() ??
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

  /** A spare takes only a place that nothing else may take, now or after a delay. */
  #admitSpare(): Decision | undefined {
    const slot = this.#spares.first;
    if (slot === undefined || !this.all.hasRoom) return undefined;
    if (this.all.limit < Infinity && (this.all.waiting.size > 0 || this.all.resumable.size > 0))
      return undefined;
    return { kind: 'admit', slot, resumed: false };
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
