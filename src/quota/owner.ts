import type { Cap } from './caps.ts';
import type { QuotaRule } from './rules.ts';
import { expiryOf, hasRoom, limitOf, loadOf, type Limited, type Load } from './load.ts';
import { byRank, evictableAt } from './order.ts';
import type { Slot } from './slot.ts';

/** The slots that may be evicted under a rule, until one of them changes or the time comes. */
interface Evictable {
  readonly load: Load;
  readonly rule: QuotaRule | undefined;
  /** In the order of evictions. */
  readonly slots: readonly Slot[];
  /** Time when another slot may be evicted; Infinity: none. */
  readonly until: number;
}

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
  #evictable: Evictable | undefined;

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

  /** The slots that may be evicted now under a rule; kept, because few owners change at a time. */
  evictable(rule: QuotaRule | undefined, now: number): Evictable {
    const { load } = this;
    const known = this.#evictable;
    if (known?.load === load && known.rule === rule && now < known.until) return known;
    const slots = load.candidates.filter((slot) => evictableAt(slot, rule) <= now);
    const others = load.candidates.filter((slot) => !slots.includes(slot));
    const until = Math.min(...others.map((slot) => evictableAt(slot, rule)));
    return (this.#evictable = { load, rule, slots: slots.sort(byRank(rule)), until });
  }

  /** Whether a sandbox may need a decision, other than by its time limit or an automatic resume. */
  get mayNeedDecision(): boolean {
    const { waiting, undecided, releasable, holding } = this.load;
    return (
      waiting.length > 0 || undecided.length > 0 || releasable.length > 0 || holding > limitOf(this)
    );
  }

  /** Whether the owner's limit has room for an automatic resume that no newcomer takes. */
  get mayResume(): boolean {
    const { waiting, resumable } = this.load;
    return resumable.length > 0 && waiting.length === 0 && hasRoom(this);
  }

  /** The first time limit that ends, or else the first delayed resume after now that is due. */
  dueAt(now: number): number {
    let first = expiryOf(this.load.expiring);
    for (const { resumesAt } of this.load.resumable)
      if (resumesAt > now && resumesAt < first) first = resumesAt;
    return first;
  }
}
