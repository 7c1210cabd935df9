import { capsOf, quotaCaps, type Cap, type QuotaCaps } from './caps.ts';
import { ownerRule, quotaRules, type QuotaRules } from './rules.ts';
import { limitOf, sumOf, type Limited, Owner, OwnerCounts, type Sums } from './owners.ts';
import type { Slot } from './slot.ts';
import { TokenBucket, type TokenBucketOptions } from '@conversation-operator/base/token-bucket';

/** All sandboxes with an owner, and the limits of the namespace. Warm sandboxes do not count. */
export interface Everyone extends Limited {
  /** `maxSandboxes` of the namespace. */
  readonly cap: Cap | undefined;
  readonly owners: ReadonlyMap<string, Owner>;
}

/** The data that one decision reads. */
export interface View extends Pick<Sums, 'wanted' | 'demand'> {
  /** Milliseconds since 1970. */
  readonly now: number;
  /** Owners whose sandboxes may need a decision other than an automatic resume. */
  readonly owners: readonly Owner[];
  /** Owners who have sandboxes to resume automatically, and room for them. */
  readonly resuming: readonly Owner[];
  readonly all: Everyone;
  readonly warmSandboxes: Owner;
  readonly resumeRate: TokenBucket;
  /** The first time after now at which a time limit ends or a delayed resume is due. */
  readonly dueAt: number;
}

/** Default rate of automatic resumes in a namespace: each resume schedules a pod with a volume. */
const defaultResumeRate: TokenBucketOptions = { burst: 10, intervalMs: 1_000 };
/**
 * Delay before the next automatic resume after the deletion of a quota. The quota may be created
 * again, and the resumed sandboxes would then exceed it.
 */
const deletedQuotaDelayMs = 60_000;

/**
 * The sandboxes of one namespace, by owner, and its quotas. `view` counts an owner again only if
 * the owner has changed since the previous view. The class does no I/O and reads no clock.
 */
export class Snapshot {
  readonly #slots = new Map<string, Slot>();
  readonly #owners = new Map<string, Owner>();
  readonly #changed = new Set<Owner>();
  readonly #counts = new OwnerCounts();
  readonly #resumeRate: TokenBucket;
  #lastResume = 0;
  #viewedAt = 0;
  #rules = quotaRules([]);
  #caps = quotaCaps([]);
  /** The warm sandboxes of pools, which count against no limit of an owner. */
  readonly warmSandboxes = new Owner('');

  constructor(resumeRate = defaultResumeRate) {
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
    const before = limitOf(owner);
    owner.rule = ownerRule(this.#rules, owner.name);
    if (limitOf(owner) !== before) this.#changed.add(owner);
    owner.cap = capsOf(this.#caps, owner.name, 'maxSandboxes').find(
      ({ scope }) => scope === 'Owner',
    );
  }

  /** Delays automatic resumes, because the deleted quota may be created again. */
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
   * Adds a slot, or replaces the slot of the same uid. A waiting sandbox keeps the time of its
   * request. An automatic resume takes a token of `#resumeRate` at the time of the last `view`.
   */
  put(given: Slot): void {
    const old = this.#slots.get(given.uid);
    const isWaiting = old?.state === 'waiting' && given.state === 'waiting';
    const slot = isWaiting ? { ...given, requestedAt: old.requestedAt } : given;
    if (old !== undefined && old.owner !== slot.owner) this.#leave(old);
    this.#slots.set(slot.uid, slot);
    const owner = this.#ownerOf(slot);
    owner.put(slot);
    this.#changed.add(owner);
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
    this.#changed.add(owner);
    if (owner.isEmpty) this.#owners.delete(owner.name);
  }

  #ownerOf({ owner: name }: Slot): Owner {
    if (name === '') return this.warmSandboxes;
    let owner = this.#owners.get(name);
    if (owner === undefined) {
      owner = new Owner(name);
      this.#applyRules(owner);
      this.#owners.set(name, owner);
    }
    return owner;
  }

  #countChanges(): void {
    for (const owner of this.#changed) {
      if (owner === this.warmSandboxes) continue;
      if (owner.isEmpty) this.#counts.forget(owner);
      else this.#counts.count(owner, this.#viewedAt);
    }
    this.#changed.clear();
  }

  get all(): Everyone {
    this.#countChanges();
    const { sums, deciding } = this.#counts;
    return {
      rule: this.#rules.namespace,
      cap: this.#caps.namespace.maxSandboxes,
      owners: this.#owners,
      load: sumOf(sums, this.#owners, deciding),
    };
  }

  view(now: number): View {
    this.#viewedAt = Math.max(this.#viewedAt, now);
    const { all, warmSandboxes } = this;
    const { sums, deciding, resuming } = this.#counts;
    const { nextAt: dueAt, owners: due } = this.#counts.due(now);
    const owners = due.length === 0 ? [...deciding] : [...new Set([...deciding, ...due])];
    const { wanted, demand } = sums;
    const resumeRate = this.#resumeRate;
    return {
      now,
      owners,
      resuming: [...resuming],
      all,
      warmSandboxes,
      wanted,
      demand,
      resumeRate,
      dueAt,
    };
  }

  /** Number of warm sandboxes that `maxSandboxes` of the namespace still permits. */
  get roomForWarmSandboxes(): number {
    const { cap, load } = this.all;
    return Math.max(0, (cap?.limit ?? Infinity) - load.stored);
  }

  /**
   * Whether a start of this owner may claim a warm sandbox now: the limits of the owner and of the
   * namespace have room for it and for all waiting sandboxes. The slot of the warm sandbox counts
   * as free.
   */
  mayClaim(name: string): boolean {
    const { taken, waiting } = this.owner(name)?.load ?? { taken: 0, waiting: [] };
    const limit = limitOf({ rule: ownerRule(this.#rules, name) });
    const { all, wanted } = this.view(0);
    return taken + waiting.length < limit && all.load.holding + wanted < limitOf(all);
  }
}
