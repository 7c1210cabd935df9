import { capsOf, quotaCaps, type Cap, type QuotaCaps } from '../../resources/quota-caps.ts';
import { isSameRule, ownerRule, quotaRules, type QuotaRules } from '../../resources/quota-rules.ts';
import { Group, byRequest } from '../../quota/group.ts';
import { OrderedSet } from '../../quota/ordered-set.ts';
import { outlookIn, tighterOf, type Outlook } from '../../quota/outlook.ts';
import type { RampOptions } from '../../quota/ramp.ts';
import type { Slot } from '../../quota/slot.ts';
import { Alarms } from './alarms.ts';
import { Comebacks } from './comebacks.ts';
import { DueSlots } from './due-slots.ts';
import { Owner, type OwnerGroup } from './owner-group.ts';
import type { Step } from './step.ts';

export interface DomainOptions {
  /** How fast sandboxes may come back by themselves. */
  readonly ramp?: RampOptions;
}

/**
 * The sandboxes of one namespace as their quotas see them. It is told of every change and says what to do next; both take time
 * logarithmic in their number. Pure: no I/O, and no clock but the `now` it is given.
 *
 * What holds for `next`:
 * - It admits only where every limit has room: newcomers in the order in which they came, those with work to do before bare resumes,
 *   and all of them before everything that comes back by itself.
 * - It evicts only what runs and has finished its start, or is stalled, and no more than newcomers wait beyond the slots that are
 *   getting free; none while the namespace keeps out newcomers and makes no room, but for a limit that was lowered.
 * - For a bare resume it evicts only what is idle. Nothing is evicted for what comes back by itself.
 * - What comes back by itself does so at a bounded rate.
 */
export class Domain {
  readonly #slots = new Map<string, Slot>();
  readonly #owners = new Map<string, Owner>();
  readonly all = new Group();
  #rules = quotaRules([]);
  #caps = quotaCaps([]);
  #demand = 0;
  #bareDemand = 0;
  /** Of `#ready`, those with work to do. */
  #readyDemanding = 0;
  readonly #comebacks: Comebacks;
  #now = 0;
  /** The first newcomer of each owner that has room. */
  readonly #ready = new OrderedSet(byRequest);
  /** Those whose newcomers make room for themselves beyond what is free. */
  readonly #crowded = new Set<Owner>();
  /** Those whose bare resumes wait beyond what is free, while one of theirs is idle. */
  readonly #bareCrowded = new Set<Owner>();
  /** Those over their limit, whether anybody waits or not. */
  readonly #over = new Set<Owner>();
  readonly #rejecting = new Set<Owner>();
  /** Those with more sandboxes than may be stored, some of which are undecided. */
  readonly #tooMany = new Set<Owner>();
  /** When an owner has to be looked at again, because one of its sandboxes becomes old enough for something. */
  readonly #ripening = new Alarms();
  readonly #due = new DueSlots();

  constructor({ ramp }: DomainOptions = {}) {
    this.#comebacks = new Comebacks(ramp);
  }

  get rules(): QuotaRules {
    return this.#rules;
  }

  get caps(): QuotaCaps {
    return this.#caps;
  }

  /** Takes time in proportion to the number of owners, if little where theirs stays the same. */
  setRules(rules: QuotaRules, caps = quotaCaps([])): void {
    const same = rules.namespace?.autoResume === this.#rules.namespace?.autoResume;
    this.#rules = rules;
    this.#caps = caps;
    this.all.rule = rules.namespace;
    this.all.maxStored = caps.namespace.maxSandboxes?.limit ?? Infinity;
    for (const owner of this.#owners.values()) {
      const old = owner.rule;
      const oldMax = owner.maxStored;
      this.#setRulesOf(owner);
      if (!same || !isSameRule(owner.rule, old) || owner.maxStored !== oldMax) this.#refresh(owner);
    }
  }

  #setRulesOf(owner: Owner): void {
    owner.rule = ownerRule(this.#rules, owner.owner);
    owner.maxStored = this.#capOf(owner)?.limit ?? Infinity;
  }

  #capOf({ owner }: Owner): Cap | undefined {
    return capsOf(this.#caps, owner, 'maxSandboxes').find(({ scope }) => scope === 'Owner');
  }

  /** A quota is gone. Until it is clear that no other takes its place, nothing comes back by itself. */
  quotaVanished(now: number): void {
    this.#comebacks.quotaVanished(now);
  }

  slot(uid: string): Slot | undefined {
    return this.#slots.get(uid);
  }

  slots(): Iterable<Slot> {
    return this.#slots.values();
  }

  group(owner: string): Group | undefined {
    return this.#owners.get(owner);
  }

  groups(): Iterable<OwnerGroup> {
    return this.#owners.values();
  }

  get size(): number {
    return this.#slots.size;
  }

  /** In the place of the one of the same uid. A newcomer keeps its place in the queue. */
  put(given: Slot): void {
    const old = this.#slots.get(given.uid);
    const slot = old?.state === 'waiting' && given.state === 'waiting' ? { ...given, requestedAt: old.requestedAt } : given;
    if (old !== undefined) this.#drop(old);
    this.#slots.set(slot.uid, slot);
    const owner = this.#owner(slot.owner);
    if (old?.state === 'resumable' && slot.taken) this.#comebacks.took(owner.owner, this.#now);
    owner.add(slot);
    this.all.add(slot);
    this.#due.add(slot);
    this.#refresh(owner);
  }

  remove(uid: string): Slot | undefined {
    const old = this.#slots.get(uid);
    if (old === undefined) return undefined;
    this.#slots.delete(uid);
    this.#drop(old);
    const owner = this.#owner(old.owner);
    this.#refresh(owner);
    if (owner.isEmpty) {
      this.#owners.delete(old.owner);
      this.#comebacks.forgetOwner(old.owner);
      this.#ripening.set(old.owner, Infinity);
    }
    return old;
  }

  /** The next thing to do, or undefined when there is nothing until something changes or `wakeAt` has come. */
  next(now: number): Step | undefined {
    this.#now = now;
    this.#ripen(now);
    return (
      this.#due.release() ??
      this.#due.expire(now) ??
      this.#refuse() ??
      this.#admit() ??
      this.#reject() ??
      this.#evict() ??
      this.#evictIdle() ??
      this.#comeBack(now) ??
      this.#explain()
    );
  }

  /** When `next` may say something else without any change, in milliseconds since 1970; Infinity: never. */
  get wakeAt(): number {
    return Math.min(
      this.#ripening.at,
      this.#due.expiryAt,
      this.all.excess(this.#demand + this.#bareDemand) > 0 ? this.all.ripeAt : Infinity,
      this.all.hasRoom ? this.#comebacks.readyAt : Infinity,
    );
  }

  /** What would become of one more start in a group: of an owner, or, with `all`, of any owner that has room itself. */
  outlook(group: Group): Outlook {
    const namespace = outlookIn(this.all, { demanding: this.#demand, ready: this.#readyDemanding, bare: this.#bareDemand });
    if (group === this.all) return namespace;
    // Nothing else does that for an owner within its limit.
    group.ripen(this.#now);
    const owner = outlookIn(group);
    return owner.outcome === 'pauses' && group.holding <= group.limit && this.#isFull ? namespace : tighterOf(owner, namespace);
  }

  /**
   * Newcomers with room under their owners' limits wait for the namespace, which makes none. What another owner's newcomer would
   * free is theirs first, so nothing is paused for it.
   */
  get #isFull(): boolean {
    return !this.all.makesRoom && this.all.holding + this.#demand > this.all.limit;
  }

  /** The same for bare resumes, who also come after the newcomers with work to do. */
  get #isFullForBare(): boolean {
    return !this.all.makesRoom && this.all.holding + this.#demand + this.#bareDemand > this.all.limit;
  }

  #drop(slot: Slot): void {
    this.#owner(slot.owner).remove(slot);
    this.all.remove(slot);
    this.#due.delete(slot);
    // An owner whose slot is replaced by one of another owner can't be: owners are immutable.
  }

  #owner(name: string): Owner {
    let owner = this.#owners.get(name);
    if (owner === undefined) {
      owner = new Owner(name);
      this.#setRulesOf(owner);
      this.#owners.set(name, owner);
    }
    return owner;
  }

  /** Brings what stands of an owner in the sets of the namespace up to date. */
  #refresh(owner: Owner): void {
    const ready = owner.hasRoom ? owner.waiting.first : undefined;
    if (ready !== owner.ready) {
      if (owner.ready !== undefined) this.#ready.delete(owner.ready);
      if (ready !== undefined) this.#ready.add(ready);
      this.#readyDemanding += demands(ready) - demands(owner.ready);
      owner.ready = ready;
    }
    this.#comebacks.offer(owner.owner, this.#toResume(owner));
    const room = Math.max(0, owner.limit - owner.holding);
    const demand = Math.min(owner.demanding, room);
    const bareDemand = Math.min(owner.waiting.size, room) - demand;
    this.#demand += demand - owner.demand;
    this.#bareDemand += bareDemand - owner.bareDemand;
    Object.assign(owner, { demand, bareDemand });
    const excess = owner.excess(owner.demanding);
    const withBare = owner.excess(owner.waiting.size);
    const evictable = excess > 0 && owner.victims > 0;
    keepIn(this.#over, owner, evictable && owner.holding > owner.limit);
    keepIn(this.#crowded, owner, evictable && owner.holding <= owner.limit);
    keepIn(this.#bareCrowded, owner, withBare > 0 && owner.idleVictim !== undefined);
    keepIn(this.#tooMany, owner, owner.oneTooMany !== undefined);
    keepIn(this.#rejecting, owner, owner.rule?.onExceeded === 'Reject' && owner.waiting.size > room);
    this.#ripening.set(owner.owner, Math.min(withBare > 0 ? owner.ripeAt : Infinity, owner.comebackAt));
  }

  #toResume(owner: Owner): Slot | undefined {
    const slot = owner.resumable.first;
    if (slot === undefined || !owner.hasRoom || owner.waiting.size > 0) return undefined;
    const policies = [owner.rule?.autoResume ?? 'All', this.#rules.namespace?.autoResume ?? 'All'];
    if (policies.includes('Never')) return undefined;
    return policies.includes('Unfinished') && !slot.unfinished ? undefined : slot;
  }

  #ripen(now: number): void {
    this.all.ripen(now);
    for (let name = this.#ripening.takeDue(now); name !== undefined; name = this.#ripening.takeDue(now)) {
      const owner = this.#owner(name);
      owner.ripen(now);
      this.#refresh(owner);
    }
  }

  /** The last that was created, of those that nobody has let in yet. */
  #refuse(): Step | undefined {
    for (const owner of this.#tooMany) {
      const [slot, cap] = [owner.oneTooMany, this.#capOf(owner)];
      if (slot !== undefined && cap !== undefined) return { kind: 'refuse', slot, cap, current: owner.stored - 1 };
    }
    const [slot, cap] = [this.all.oneTooMany, this.#caps.namespace.maxSandboxes];
    return slot === undefined || cap === undefined ? undefined : { kind: 'refuse', slot, cap, current: this.all.stored - 1 };
  }

  #admit(): Step | undefined {
    const slot = this.all.hasRoom ? this.#ready.first : undefined;
    return slot === undefined ? undefined : { kind: 'admit', slot, resumed: false };
  }

  /** The last to come is the one that is one too many. */
  #reject(): Step | undefined {
    for (const owner of this.#rejecting) {
      const slot = owner.waiting.last;
      if (slot !== undefined && owner.rule !== undefined) return { kind: 'reject', slot, rule: owner.rule, current: owner.taken };
    }
    const { rule } = this.all;
    const demand = this.#demand + this.#bareDemand;
    if (rule?.onExceeded !== 'Reject' || this.all.holding + demand <= rule.limit || demand === 0) return undefined;
    const slot = this.all.waiting.last;
    return slot === undefined ? undefined : { kind: 'reject', slot, rule, current: this.all.taken };
  }

  #evict(): Step | undefined {
    const crowded = this.#over.size > 0 || this.#isFull ? this.#over : this.#crowded;
    for (const owner of crowded) {
      const { victim, rule } = owner;
      if (victim === undefined || rule === undefined) continue;
      return { kind: 'evict', slot: victim, rule, beneficiary: owner.beneficiary };
    }
    const { victim, rule } = this.all;
    if (victim === undefined || rule === undefined || this.all.excess(this.#demand) <= 0) return undefined;
    return { kind: 'evict', slot: victim, rule, beneficiary: this.#demand > 0 ? this.all.beneficiary : undefined };
  }

  /** For bare resumes, once nothing has to go for those with work to do. */
  #evictIdle(): Step | undefined {
    for (const owner of this.#isFullForBare ? [] : this.#bareCrowded) {
      const { idleVictim, rule } = owner;
      if (idleVictim !== undefined && rule !== undefined) return { kind: 'evict', slot: idleVictim, rule, beneficiary: owner.beneficiary };
    }
    const { idleVictim, rule } = this.all;
    const excess = this.all.excess(this.#demand + this.#bareDemand);
    if (idleVictim === undefined || rule === undefined || excess <= 0) return undefined;
    return { kind: 'evict', slot: idleVictim, rule, beneficiary: this.all.beneficiary };
  }

  /** Newcomers are admitted before: those that are left wait for slots that are getting free, which nobody else gets either. */
  #comeBack(now: number): Step | undefined {
    const slot = this.all.hasRoom ? this.#comebacks.next(now) : undefined;
    return slot === undefined ? undefined : { kind: 'admit', slot, resumed: true };
  }

  #explain(): Step | undefined {
    for (const slot of this.#due.unexplained) {
      const owner = this.#owner(slot.owner);
      const rule = owner.hasRoom && owner.waiting.first === slot ? (this.all.rule ?? owner.rule) : (owner.rule ?? this.all.rule);
      if (rule !== undefined) return { kind: 'wait', slot, rule };
    }
    return undefined;
  }
}

const demands = (ready: Slot | undefined): number => (ready === undefined || ready.bare ? 0 : 1);

function keepIn<T>(set: Set<T>, value: T, member: boolean): void {
  if (member) set.add(value);
  else set.delete(value);
}
