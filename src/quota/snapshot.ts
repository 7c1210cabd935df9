import { capsOf, quotaCaps, type Cap, type QuotaCaps } from '../resources/quota-caps.ts';
import {
  ownerRule,
  quotaRules,
  type QuotaRule,
  type QuotaRules,
} from '../resources/quota-rules.ts';
import { expiryOf, hasRoom, limitOf, loadOf, sumOf, type Limited, type Load } from './load.ts';
import type { Slot } from './slot.ts';
import { TokenBucket, type TokenBucketOptions } from '@conversation-operator/base/token-bucket';

/** The sandboxes of one owner in a namespace. */
export class Owner implements Limited {
  readonly name: string;
  rule: QuotaRule | undefined;
  /** The lowest `maxSandboxes` of the quotas for this owner. */
  cap: Cap | undefined;
  /** Sequence number of the last automatic resume; 0 before the first. */
  lastResume = 0;
  readonly #slots = new Map<string, Slot>();
  #load: Load | undefined;

  constructor(name: string) {
    this.name = name;
  }

  /** Read anew after a change of a slot. */
  get load(): Load {
    return (this.#load ??= loadOf(this.#slots.values()));
  }

  get isEmpty(): boolean {
    return this.#slots.size === 0;
  }

  slots(): Iterable<Slot> {
    return this.#slots.values();
  }

  put(slot: Slot): void {
    this.#slots.set(slot.uid, slot);
    this.#load = undefined;
  }

  remove(uid: string): void {
    this.#slots.delete(uid);
    this.#load = undefined;
  }

  /** Number of newcomers that only the limit of the namespace may keep waiting. */
  get wanted(): number {
    const { waiting, holding } = this.load;
    return Math.min(waiting.length, Math.max(0, limitOf(this) - holding));
  }

  /** Number of these newcomers that have work to do. */
  get demand(): number {
    return Math.min(this.load.demanding, this.wanted);
  }

  /** The first newcomer, where the owner's limit has room for it. */
  get ready(): Slot | undefined {
    return hasRoom(this) ? this.load.waiting[0] : undefined;
  }
}

/** The sandboxes of all owners under the limits of the namespace, where spares are room. */
export interface Everyone extends Limited {
  /** `maxSandboxes` of the namespace. */
  readonly cap: Cap | undefined;
}

/** The parts of a snapshot that one decision reads. */
export interface View {
  /** Milliseconds since 1970. */
  readonly now: number;
  /** The owners whose sandboxes may need a decision other than an automatic resume. */
  readonly owners: readonly Owner[];
  /** The owners with sandboxes that resume automatically, now or after a delay. */
  readonly resuming: readonly Owner[];
  readonly all: Everyone;
  readonly spares: Owner;
  /** Number of newcomers that only the limit of the namespace may keep waiting. */
  readonly wanted: number;
  /** Number of these newcomers that have work to do; the other newcomers are bare resumes. */
  readonly demand: number;
  readonly resumeRate: TokenBucket;
}

const mayNeedDecision = ({ load, rule }: Owner, now: number): boolean =>
  load.waiting.length > 0 ||
  load.undecided.length > 0 ||
  load.releasable.length > 0 ||
  load.holding > limitOf({ rule }) ||
  expiryOf(load.expiring) <= now;

/** Default rate of automatic resumes in a namespace: each schedules a pod and attaches a volume. */
const defaultResumeRate: TokenBucketOptions = { burst: 10, intervalMs: 1_000 };
/**
 * Delay before the next automatic resume after the deletion of a quota: it may be created again,
 * and a start is not evicted.
 */
const deletedQuotaDelayMs = 60_000;

export interface SnapshotOptions {
  /** Rate of automatic resumes. */
  readonly resumeRate?: TokenBucketOptions;
}

/**
 * The sandboxes of one namespace, by owner, and the quotas that hold for them. A change costs no
 * more than the next reading of its owner's load. Pure: no I/O and no clock.
 */
export class Snapshot {
  readonly #slots = new Map<string, Slot>();
  readonly #owners = new Map<string, Owner>();
  readonly #resumeRate: TokenBucket;
  #lastResume = 0;
  #viewedAt = 0;
  #rules = quotaRules([]);
  #caps = quotaCaps([]);
  /** The spares of pools, which no limit of an owner counts. */
  readonly spares = new Owner('');

  constructor({ resumeRate = defaultResumeRate }: SnapshotOptions = {}) {
    this.#resumeRate = new TokenBucket(resumeRate);
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
    for (const owner of this.#owners.values()) this.#applyRules(owner);
  }

  #applyRules(owner: Owner): void {
    owner.rule = ownerRule(this.#rules, owner.name);
    owner.cap = capsOf(this.#caps, owner.name, 'maxSandboxes').find(
      ({ scope }) => scope === 'Owner',
    );
  }

  /**
   * Delays automatic resumes after the deletion of a quota, because another quota may replace it.
   */
  quotaDeleted(now: number): void {
    this.#resumeRate.hold(now + deletedQuotaDelayMs);
  }

  slot(uid: string): Slot | undefined {
    return this.#slots.get(uid);
  }

  slots(): Iterable<Slot> {
    return this.#slots.values();
  }

  owner(name: string): Owner | undefined {
    return this.#owners.get(name);
  }

  owners(): Iterable<Owner> {
    return this.#owners.values();
  }

  get size(): number {
    return this.#slots.size;
  }

  /**
   * Adds a slot, or replaces the slot of the same uid. A newcomer that waits keeps its place. An
   * automatic resume counts at the time of the last view.
   */
  put(given: Slot): void {
    const old = this.#slots.get(given.uid);
    const isWaiting = old?.state === 'waiting' && given.state === 'waiting';
    const slot = isWaiting ? { ...given, requestedAt: old.requestedAt } : given;
    if (old !== undefined && old.owner !== slot.owner) this.#leave(old);
    this.#slots.set(slot.uid, slot);
    const owner = this.#ownerOf(slot);
    owner.put(slot);
    if (old?.state !== 'resumable' || !slot.taken) return;
    this.#resumeRate.take(this.#viewedAt);
    owner.lastResume = ++this.#lastResume;
  }

  remove(uid: string): Slot | undefined {
    const old = this.#slots.get(uid);
    if (old === undefined) return undefined;
    this.#slots.delete(uid);
    this.#leave(old);
    return old;
  }

  #leave(slot: Slot): void {
    const owner = this.#ownerOf(slot);
    owner.remove(slot.uid);
    if (owner.isEmpty) this.#owners.delete(owner.name);
  }

  #ownerOf({ owner: name }: Slot): Owner {
    if (name === '') return this.spares;
    let owner = this.#owners.get(name);
    if (owner === undefined) {
      owner = new Owner(name);
      this.#applyRules(owner);
      this.#owners.set(name, owner);
    }
    return owner;
  }

  get all(): Everyone {
    const loads = Array.from(this.#owners.values(), ({ load }) => load);
    const cap = this.#caps.namespace.maxSandboxes;
    return { rule: this.#rules.namespace, cap, load: sumOf(loads) };
  }

  /** Takes time in proportion to the number of owners. */
  view(now: number): View {
    this.#viewedAt = Math.max(this.#viewedAt, now);
    const every = [...this.#owners.values()];
    const owners = every.filter((owner) => mayNeedDecision(owner, now));
    const resuming = every.filter(({ load }) => load.resumable.length > 0);
    let [wanted, demand] = [0, 0];
    for (const owner of owners) {
      wanted += owner.wanted;
      demand += owner.demand;
    }
    const { all, spares } = this;
    return { now, owners, resuming, all, spares, wanted, demand, resumeRate: this.#resumeRate };
  }

  /** Number of spares for which `maxSandboxes` of the namespace leaves room. */
  get roomForSpares(): number {
    const { cap, load } = this.all;
    return Math.max(0, (cap?.limit ?? Infinity) - load.stored);
  }

  /**
   * Whether a start of an owner may claim a spare now: the limits of the owner and of the namespace
   * have room for it beside the newcomers that come first. The place of the spare is room.
   */
  mayClaim(name: string): boolean {
    const { taken, waiting } = this.owner(name)?.load ?? { taken: 0, waiting: [] };
    const limit = limitOf({ rule: ownerRule(this.#rules, name) });
    const { all, wanted } = this.view(0);
    return taken + waiting.length < limit && all.load.holding + wanted < limitOf(all);
  }
}
