import { isSameRule, ownerRule, type QuotaRule, type QuotaRules } from '../../resources/quota-rules.ts';
import { Group, byRequest, byResume } from '../../quota/group.ts';
import { OrderedSet } from '../../quota/ordered-set.ts';
import { outlookIn, tighterOf, type Outlook } from '../../quota/outlook.ts';
import type { Slot } from '../../quota/slot.ts';

/** One decision. What it says has to be written on the very version of the sandbox that it was made for. */
export type Step =
  /** Its pod is gone: it needs its slot no more. */
  | { readonly kind: 'release'; readonly slot: Slot }
  | { readonly kind: 'admit'; readonly slot: Slot; readonly resumed: boolean }
  /** For a newcomer, or because the limit was lowered. */
  | { readonly kind: 'evict'; readonly slot: Slot; readonly rule: QuotaRule; readonly beneficiary: Slot | undefined }
  | { readonly kind: 'expire'; readonly slot: Slot; readonly reason: NonNullable<Slot['expiry']>['reason'] }
  | { readonly kind: 'reject'; readonly slot: Slot; readonly rule: QuotaRule; readonly current: number }
  | { readonly kind: 'wait'; readonly slot: Slot; readonly rule: QuotaRule };

export interface OwnerGroup extends Group {
  readonly owner: string;
}

/** An owner with what of it stands in the sets of its domain. */
class Owner extends Group implements OwnerGroup {
  readonly owner: string;
  ready: Slot | undefined;
  resume: Slot | undefined;
  /** The newcomers that only the namespace's limit may keep out. */
  demand = 0;
  ripening: { readonly at: number; readonly owner: string } | undefined;

  constructor(owner: string) {
    super();
    this.owner = owner;
  }
}

const byTime = (one: { at: number; owner: string }, other: { at: number; owner: string }): number =>
  one.at - other.at || (one.owner === other.owner ? 0 : one.owner < other.owner ? -1 : 1);
const expiryOf = ({ expiry }: Slot): number => expiry?.at ?? Infinity;
const byExpiry = (one: Slot, other: Slot): number =>
  (expiryOf(one) === expiryOf(other) ? 0 : expiryOf(one) - expiryOf(other)) || (one.uid === other.uid ? 0 : one.uid < other.uid ? -1 : 1);
const noRules: QuotaRules = { namespace: undefined, everyOwner: undefined, owners: new Map(), conflicts: new Map() };

/**
 * The sandboxes of one namespace as their quotas see them. It is told of every change and says what to do next; both take time
 * logarithmic in their number. Pure: no I/O, and no clock but the `now` it is given.
 *
 * What holds for `next`:
 * - It admits only where every limit has room, newcomers in the order in which they came, and before everything that comes back
 *   by itself.
 * - It evicts only what runs and has finished its start, and no more than newcomers wait beyond the slots that are getting free;
 *   none while the namespace keeps out newcomers and makes no room, but for a limit that was lowered.
 * - Nothing is evicted for what comes back by itself.
 */
export class Domain {
  readonly #slots = new Map<string, Slot>();
  readonly #owners = new Map<string, Owner>();
  readonly all = new Group();
  #rules = noRules;
  #demand = 0;
  /** The first newcomer of each owner that has room. */
  readonly #ready = new OrderedSet(byRequest);
  /** The first to come back of each owner that has room and no newcomers. */
  readonly #resume = new OrderedSet(byResume);
  /** Those whose newcomers make room for themselves beyond what is free. */
  readonly #crowded = new Set<Owner>();
  /** Those over their limit, whether anybody waits or not. */
  readonly #over = new Set<Owner>();
  readonly #rejecting = new Set<Owner>();
  readonly #ripening = new OrderedSet(byTime);
  readonly #expiring = new OrderedSet(byExpiry);
  readonly #releasable = new Map<string, Slot>();
  readonly #unexplained = new Map<string, Slot>();

  get rules(): QuotaRules {
    return this.#rules;
  }

  /** Takes time in proportion to the number of owners, if little where theirs stays the same. */
  setRules(rules: QuotaRules): void {
    const same = rules.namespace?.autoResume === this.#rules.namespace?.autoResume;
    this.#rules = rules;
    this.all.rule = rules.namespace;
    for (const owner of this.#owners.values()) {
      const rule = ownerRule(rules, owner.owner);
      const old = owner.rule;
      owner.rule = rule;
      if (!same || !isSameRule(rule, old)) this.#refresh(owner);
    }
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
    owner.add(slot);
    this.all.add(slot);
    if (slot.expiry !== undefined) this.#expiring.add(slot);
    if (slot.releasable) this.#releasable.set(slot.uid, slot);
    if (slot.state === 'waiting' && !slot.explained) this.#unexplained.set(slot.uid, slot);
    this.#refresh(owner);
  }

  remove(uid: string): Slot | undefined {
    const old = this.#slots.get(uid);
    if (old === undefined) return undefined;
    this.#slots.delete(uid);
    this.#drop(old);
    const owner = this.#owner(old.owner);
    this.#refresh(owner);
    if (owner.isEmpty) this.#owners.delete(old.owner);
    return old;
  }

  /** The next thing to do, or undefined when there is nothing until something changes or `wakeAt` has come. */
  next(now: number): Step | undefined {
    this.#ripen(now);
    return this.#release() ?? this.#expire(now) ?? this.#admit() ?? this.#reject() ?? this.#evict() ?? this.#comeBack() ?? this.#explain();
  }

  /** When `next` may say something else without any change, in milliseconds since 1970; Infinity: never. */
  get wakeAt(): number {
    const expiry = this.#expiring.first;
    return Math.min(
      this.#ripening.first?.at ?? Infinity,
      expiry === undefined ? Infinity : expiryOf(expiry),
      this.#excess > 0 ? this.all.ripeAt : Infinity,
    );
  }

  /** What would become of one more start in a group: of an owner, or, with `all`, of any owner that has room itself. */
  outlook(group: Group): Outlook {
    const namespace = outlookIn(this.all, this.#demand, this.#ready.size);
    if (group === this.all) return namespace;
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

  /** How many have to go before the namespace is within its limit, with the newcomers that make room for themselves. */
  get #excess(): number {
    return this.all.holding + (this.all.makesRoom ? this.#demand : 0) - this.all.limit;
  }

  #drop(slot: Slot): void {
    this.#owner(slot.owner).remove(slot);
    this.all.remove(slot);
    if (slot.expiry !== undefined) this.#expiring.delete(slot);
    this.#releasable.delete(slot.uid);
    this.#unexplained.delete(slot.uid);
    // An owner whose slot is replaced by one of another owner can't be: owners are immutable.
  }

  #owner(name: string): Owner {
    let owner = this.#owners.get(name);
    if (owner === undefined) {
      owner = new Owner(name);
      owner.rule = ownerRule(this.#rules, name);
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
      owner.ready = ready;
    }
    const resume = this.#toResume(owner);
    if (resume !== owner.resume) {
      if (owner.resume !== undefined) this.#resume.delete(owner.resume);
      if (resume !== undefined) this.#resume.add(resume);
      owner.resume = resume;
    }
    const room = Math.max(0, owner.limit - owner.holding);
    const demand = Math.min(owner.waiting.size, room);
    this.#demand += demand - owner.demand;
    owner.demand = demand;
    const excess = excessOf(owner);
    const evictable = excess > 0 && owner.victims > 0;
    keepIn(this.#over, owner, evictable && owner.holding > owner.limit);
    keepIn(this.#crowded, owner, evictable && owner.holding <= owner.limit);
    keepIn(this.#rejecting, owner, owner.rule?.onExceeded === 'Reject' && owner.waiting.size > room);
    if (owner.ripening !== undefined) this.#ripening.delete(owner.ripening);
    owner.ripening = excess > 0 && owner.ripeAt < Infinity ? { at: owner.ripeAt, owner: owner.owner } : undefined;
    if (owner.ripening !== undefined) this.#ripening.add(owner.ripening);
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
    for (let due = this.#ripening.first; due !== undefined && due.at <= now; due = this.#ripening.first) {
      const owner = this.#owner(due.owner);
      owner.ripen(now);
      this.#refresh(owner);
    }
  }

  #release(): Step | undefined {
    for (const slot of this.#releasable.values()) return { kind: 'release', slot };
    return undefined;
  }

  #expire(now: number): Step | undefined {
    const slot = this.#expiring.first;
    return slot?.expiry !== undefined && slot.expiry.at <= now ? { kind: 'expire', slot, reason: slot.expiry.reason } : undefined;
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
    if (rule?.onExceeded !== 'Reject' || this.all.holding + this.#demand <= rule.limit || this.#demand === 0) return undefined;
    const slot = this.all.waiting.last;
    return slot === undefined ? undefined : { kind: 'reject', slot, rule, current: this.all.taken };
  }

  #evict(): Step | undefined {
    const crowded = this.#over.size > 0 || this.#isFull ? this.#over : this.#crowded;
    for (const owner of crowded) {
      const { victim, rule } = owner;
      if (victim === undefined || rule === undefined) continue;
      // Those before it get a slot that is free or getting free.
      const beneficiary = owner.makesRoom ? owner.waiting.at(Math.max(0, owner.limit - owner.holding)) : undefined;
      return { kind: 'evict', slot: victim, rule, beneficiary };
    }
    const { victim, rule } = this.all;
    if (victim === undefined || rule === undefined || this.#excess <= 0) return undefined;
    const beneficiary =
      this.all.makesRoom && this.#demand > 0 ? this.all.waiting.at(Math.max(0, this.all.limit - this.all.holding)) : undefined;
    return { kind: 'evict', slot: victim, rule, beneficiary };
  }

  /** What comes back by itself never takes what a newcomer is about to get. */
  #comeBack(): Step | undefined {
    const slot = this.#resume.first;
    if (slot === undefined || !this.all.hasRoom || this.all.holding + this.#demand >= this.all.limit) return undefined;
    return { kind: 'admit', slot, resumed: true };
  }

  #explain(): Step | undefined {
    for (const slot of this.#unexplained.values()) {
      const owner = this.#owner(slot.owner);
      const rule = owner.hasRoom && owner.waiting.first === slot ? (this.all.rule ?? owner.rule) : (owner.rule ?? this.all.rule);
      if (rule !== undefined) return { kind: 'wait', slot, rule };
    }
    return undefined;
  }
}

const excessOf = (group: Group): number => group.holding + (group.makesRoom ? group.waiting.size : 0) - group.limit;

function keepIn<T>(set: Set<T>, value: T, member: boolean): void {
  if (member) set.add(value);
  else set.delete(value);
}
