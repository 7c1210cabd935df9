import { capsOf, type QuotaCaps } from '../resources/quota-caps.ts';
import { isSameRule, ownerRule, type QuotaRules } from '../resources/quota-rules.ts';
import { Deadlines } from './deadlines.ts';
import { LimitGroup } from './limit-group.ts';
import { OrderedSet } from './ordered-set.ts';
import type { ResumeQueue } from './resume-queue.ts';
import { byRequest } from './slot-order.ts';
import type { Slot } from './slot.ts';

/** The sandboxes of one owner, with the values that `OwnerGroups` keeps of them. */
export class OwnerGroup extends LimitGroup {
  readonly owner: string;
  /** The first newcomer, where the owner's limit has room for it. */
  ready: Slot | undefined;
  /** Newcomers with work to do that only the limit of the namespace may keep waiting. */
  demand = 0;
  /** Bare resumes that only the limit of the namespace may keep waiting. */
  bareDemand = 0;

  constructor(owner: string) {
    super();
    this.owner = owner;
  }
}

const isDemanding = (ready: Slot | undefined): number =>
  ready === undefined || ready.bare ? 0 : 1;

function keepIn<T>(set: Set<T>, value: T, isMember: boolean): void {
  if (isMember) set.add(value);
  else set.delete(value);
}

/**
 * The owners of a namespace, and the sets of those that need a decision. Every change takes
 * logarithmic time.
 */
export class OwnerGroups {
  readonly #groups = new Map<string, OwnerGroup>();
  #rules: QuotaRules;
  #caps: QuotaCaps;
  readonly #resumes: ResumeQueue;
  /** The `ready` newcomers of all owners. */
  readonly #ready = new OrderedSet(byRequest);
  /** Times when an owner's own slots become evictable or resumable. */
  readonly #wakeTimes = new Deadlines();
  /** Sums over all owners. */
  readonly totals = { demand: 0, bareDemand: 0, readyDemanding: 0 };
  /** Owners above their limit who have a victim. */
  readonly overLimit = new Set<OwnerGroup>();
  /** Owners within their limit whose newcomers with work to do need evictions. */
  readonly crowded = new Set<OwnerGroup>();
  /** Owners whose bare resumes need evictions, and who have an idle victim. */
  readonly bareCrowded = new Set<OwnerGroup>();
  /** Owners whose newcomers are rejected. */
  readonly rejecting = new Set<OwnerGroup>();
  /** Owners with an undecided sandbox above `maxSandboxes`. */
  readonly overCap = new Set<OwnerGroup>();

  constructor(rules: QuotaRules, caps: QuotaCaps, resumes: ResumeQueue) {
    this.#rules = rules;
    this.#caps = caps;
    this.#resumes = resumes;
  }

  /**
   * Takes time in proportion to the number of owners, and little for those whose rule stays the
   * same.
   */
  setRules(rules: QuotaRules, caps: QuotaCaps): void {
    const isSameForAll = rules.namespace?.autoResume === this.#rules.namespace?.autoResume;
    this.#rules = rules;
    this.#caps = caps;
    for (const group of this.#groups.values()) {
      const { rule, cap } = group;
      this.#applyRules(group);
      if (!isSameForAll || !isSameRule(group.rule, rule) || group.cap?.limit !== cap?.limit)
        this.refresh(group);
    }
  }

  #applyRules(group: OwnerGroup): void {
    group.rule = ownerRule(this.#rules, group.owner);
    group.cap = capsOf(this.#caps, group.owner, 'maxSandboxes').find(
      ({ scope }) => scope === 'Owner',
    );
  }

  get(owner: string): OwnerGroup | undefined {
    return this.#groups.get(owner);
  }

  of({ owner }: Slot): OwnerGroup {
    let group = this.#groups.get(owner);
    if (group === undefined) {
      group = new OwnerGroup(owner);
      this.#applyRules(group);
      this.#groups.set(owner, group);
    }
    return group;
  }

  *values(): Iterable<OwnerGroup> {
    for (const group of this.#groups.values()) if (group.owner !== '') yield group;
  }

  /** The newcomer that is admitted next. */
  get firstReady(): Slot | undefined {
    return this.#ready.first;
  }

  /** Time when an owner's slots change by time alone; Infinity: never. */
  get wakeAt(): number {
    return this.#wakeTimes.at;
  }

  /** Updates the sums and sets after a change of the group. */
  refresh(group: OwnerGroup): void {
    const ready = group.hasRoom ? group.waiting.first : undefined;
    if (ready !== group.ready) {
      if (group.ready !== undefined) this.#ready.delete(group.ready);
      if (ready !== undefined) this.#ready.add(ready);
      this.totals.readyDemanding += isDemanding(ready) - isDemanding(group.ready);
      group.ready = ready;
    }
    this.#resumes.offer(group.owner, this.#nextResume(group));
    const room = Math.max(0, group.limit - group.holding);
    const demand = Math.min(group.demanding, room);
    const bareDemand = Math.min(group.waiting.size, room) - demand;
    this.totals.demand += demand - group.demand;
    this.totals.bareDemand += bareDemand - group.bareDemand;
    Object.assign(group, { demand, bareDemand });
    const withBare = group.excess(group.waiting.size);
    const needsEviction = group.excess(group.demanding) > 0 && group.victim !== undefined;
    keepIn(this.overLimit, group, needsEviction && group.holding > group.limit);
    keepIn(this.crowded, group, needsEviction && group.holding <= group.limit);
    keepIn(this.bareCrowded, group, withBare > 0 && group.idleVictim !== undefined);
    keepIn(this.overCap, group, group.overCap !== undefined);
    keepIn(this.rejecting, group, group.rule?.onExceeded === 'Reject' && group.waiting.size > room);
    this.#wakeTimes.set(
      group.owner,
      Math.min(withBare > 0 ? group.candidates.nextEvictableAt : Infinity, group.nextResumeAt),
    );
  }

  /** Removes a group that has become empty. */
  prune(group: OwnerGroup): void {
    if (!group.isEmpty) return;
    this.#groups.delete(group.owner);
    this.#resumes.forgetOwner(group.owner);
  }

  #nextResume(group: OwnerGroup): Slot | undefined {
    const slot = group.resumable.first;
    if (slot === undefined || !group.hasRoom || group.waiting.size > 0) return undefined;
    const policies = [group.rule?.autoResume ?? 'All', this.#rules.namespace?.autoResume ?? 'All'];
    if (policies.includes('Never')) return undefined;
    return policies.includes('Unfinished') && !slot.unfinished ? undefined : slot;
  }

  /** Applies what time alone changes. */
  advance(now: number): void {
    for (
      let owner = this.#wakeTimes.takeDue(now);
      owner !== undefined;
      owner = this.#wakeTimes.takeDue(now)
    ) {
      const group = this.#groups.get(owner);
      if (group === undefined) continue;
      group.advance(now);
      this.refresh(group);
    }
  }
}
