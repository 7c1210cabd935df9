import type { Cap } from './caps.ts';
import type { QuotaRule } from './rules.ts';
import { byRank, evictableAt, mayBeEvicted } from './eviction.ts';
import { type Slot, byCreation, byRequest } from './slot.ts';
import { byResume } from './automatic-resume.ts';

/** The sandboxes that count against a limit, grouped for decisions. */
export interface Load {
  /** Number of slots that count against the limit. */
  readonly taken: number;
  /** Number of slots in the states `starting` and `running`, which no decision has taken away. */
  readonly holding: number;
  /** Number of sandboxes that count against `maxSandboxes`. */
  readonly stored: number;
  /** Number of waiting sandboxes that have work (`bare` is false). */
  readonly demanding: number;
  /** Waiting sandboxes in the order of admission. */
  readonly waiting: readonly Slot[];
  /** Sandboxes that resume automatically, now or after a delay, in the order of these resumes. */
  readonly resumable: readonly Slot[];
  readonly candidates: readonly Slot[];
  /** Sandboxes without a first decision, in the order of creation. */
  readonly undecided: readonly Slot[];
  readonly releasable: readonly Slot[];
  /** The slot whose time limit ends first. */
  readonly expiring: Slot | undefined;
}

const holds = ({ state }: Slot): boolean => state === 'starting' || state === 'running';
/** Time when a time limit of the template pauses a sandbox; Infinity: never. */
export const expiryOf = (slot: Slot | undefined): number => slot?.expiry?.at ?? Infinity;

export function loadOf(slots: Iterable<Slot>): Load {
  let [taken, holding, stored, demanding] = [0, 0, 0, 0];
  const waiting: Slot[] = [];
  const resumable: Slot[] = [];
  const candidates: Slot[] = [];
  const undecided: Slot[] = [];
  const releasable: Slot[] = [];
  let expiring: Slot | undefined;
  for (const slot of slots) {
    if (slot.taken) taken++;
    if (slot.stored) stored++;
    if (holds(slot)) holding++;
    if (slot.state === 'waiting') waiting.push(slot);
    if (slot.state === 'waiting' && !slot.bare) demanding++;
    if (slot.state === 'resumable') resumable.push(slot);
    if (mayBeEvicted(slot)) candidates.push(slot);
    if (slot.undecided) undecided.push(slot);
    if (slot.releasable) releasable.push(slot);
    if (expiryOf(slot) < expiryOf(expiring)) expiring = slot;
  }
  waiting.sort(byRequest);
  resumable.sort(byResume);
  undecided.sort(byCreation);
  return {
    taken,
    holding,
    stored,
    demanding,
    waiting,
    resumable,
    candidates,
    undecided,
    releasable,
    expiring,
  };
}

type Counts = Pick<Load, 'taken' | 'holding' | 'stored' | 'demanding'>;
type Loaded = Pick<Limited, 'load'>;

/**
 * The load of all owners. A list is built when it is read. The lists `waiting` and `undecided`
 * contain only the sandboxes of owners in `deciding`.
 */
export function sumOf(
  { taken, holding, stored, demanding }: Counts,
  owners: ReadonlyMap<string, Loaded>,
  deciding: Iterable<Loaded>,
): Load {
  return {
    taken,
    holding,
    stored,
    demanding,
    get waiting() {
      return Array.from(deciding, ({ load }) => load.waiting)
        .flat()
        .sort(byRequest);
    },
    get resumable() {
      return Array.from(owners.values(), ({ load }) => load.resumable)
        .flat()
        .sort(byResume);
    },
    get candidates() {
      return Array.from(owners.values(), ({ load }) => load.candidates).flat();
    },
    get undecided() {
      return Array.from(deciding, ({ load }) => load.undecided)
        .flat()
        .sort(byCreation);
    },
    // Decisions read these two fields only from the load of an owner.
    releasable: [],
    expiring: undefined,
  };
}

/** A limit on active sandboxes, and the sandboxes that it counts. */
export interface Limited {
  readonly rule: QuotaRule | undefined;
  readonly load: Load;
}

export const limitOf = ({ rule }: Pick<Limited, 'rule'>): number => rule?.limit ?? Infinity;
const hasRoom = (limited: Limited): boolean => limited.load.taken < limitOf(limited);
/** Whether the quota evicts sandboxes for waiting ones. */
export const makesRoom = ({ rule }: Pick<Limited, 'rule'>): boolean =>
  rule?.onExceeded === 'PauseOldest' || rule?.onExceeded === 'PauseLongestIdle';

/** Whether a limit is too low for `newcomers` more sandboxes, and its policy does not evict any. */
export const isFullFor = (limited: Limited, newcomers: number): boolean =>
  !makesRoom(limited) && limited.load.holding + newcomers > limitOf(limited);

/** Number of sandboxes above the limit, including waiting ones if the policy evicts for them. */
export const excessOf = (limited: Limited, newcomers: number): number =>
  limited.load.holding + (makesRoom(limited) ? newcomers : 0) - limitOf(limited);

/** The slots that may be evicted under `rule`; valid until `load` changes or `until` has passed. */
interface Evictable {
  readonly load: Load;
  readonly rule: QuotaRule | undefined;
  /** Slots in the order of evictions. */
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
  /** Sequence number of the owner's last automatic resume; 0 before the first. */
  lastResume = 0;
  readonly #slots = new Map<string, Slot>();
  #load: Load | undefined;
  #evictable: Evictable | undefined;

  constructor(name: string) {
    this.name = name;
  }

  /** Computed again after each change of a slot. */
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

  /** Number of waiting sandboxes for which the owner's own limit has room. */
  get wanted(): number {
    const { waiting, holding } = this.load;
    return Math.min(waiting.length, Math.max(0, limitOf(this) - holding));
  }

  /** How many of the `wanted` sandboxes have work (`bare` is false). */
  get demand(): number {
    return Math.min(this.load.demanding, this.wanted);
  }

  /** The first waiting sandbox, if the owner's limit has room for it. */
  get ready(): Slot | undefined {
    return hasRoom(this) ? this.load.waiting[0] : undefined;
  }

  /** The slots that may be evicted now under a rule. The result is cached until a slot changes. */
  evictable(rule: QuotaRule | undefined, now: number): Evictable {
    const { load } = this;
    const known = this.#evictable;
    if (known?.load === load && known.rule === rule && now < known.until) return known;
    const slots = load.candidates.filter((slot) => evictableAt(slot, rule) <= now);
    const others = load.candidates.filter((slot) => !slots.includes(slot));
    const until = Math.min(...others.map((slot) => evictableAt(slot, rule)));
    return (this.#evictable = { load, rule, slots: slots.sort(byRank(rule)), until });
  }

  /** Whether a sandbox may need a decision for another reason than a time limit or a resume. */
  get mayNeedDecision(): boolean {
    const { waiting, undecided, releasable, holding } = this.load;
    return (
      waiting.length > 0 || undecided.length > 0 || releasable.length > 0 || holding > limitOf(this)
    );
  }

  /** Whether the owner's limit has room for an automatic resume, and no sandbox waits. */
  get mayResume(): boolean {
    const { waiting, resumable } = this.load;
    return resumable.length > 0 && waiting.length === 0 && hasRoom(this);
  }

  /** The earlier of two times: a time limit ends, or a delayed resume is due after `now`. */
  dueAt(now: number): number {
    let first = expiryOf(this.load.expiring);
    for (const { resumesAt } of this.load.resumable)
      if (resumesAt > now && resumesAt < first) first = resumesAt;
    return first;
  }
}

/** Numbers that are summed over the owners of a namespace. */
export interface Sums extends Pick<Load, 'taken' | 'holding' | 'stored' | 'demanding'> {
  /** Number of waiting sandboxes for which the owner's own limit has room. */
  readonly wanted: number;
  /** How many of the `wanted` sandboxes have work (`bare` is false). */
  readonly demand: number;
}

interface Counted extends Sums {
  readonly dueAt: number;
}

const nothing: Sums = { taken: 0, holding: 0, stored: 0, demanding: 0, wanted: 0, demand: 0 };

const plus = (sums: Sums, part: Sums, sign: 1 | -1): Sums => ({
  taken: sums.taken + sign * part.taken,
  holding: sums.holding + sign * part.holding,
  stored: sums.stored + sign * part.stored,
  demanding: sums.demanding + sign * part.demanding,
  wanted: sums.wanted + sign * part.wanted,
  demand: sums.demand + sign * part.demand,
});

/**
 * The sums over the owners of a namespace, and the owners whom a decision has to visit. An owner is
 * counted again only after a change, so that a decision is fast even among many owners.
 */
export class OwnerCounts {
  readonly #counted = new Map<Owner, Counted>();
  /** Owners who may have a sandbox that needs a decision now. */
  readonly deciding = new Set<Owner>();
  /** Owners who may have a sandbox that resumes automatically. */
  readonly resuming = new Set<Owner>();
  #sums = nothing;
  /** The earliest `dueAt` of all owners; undefined after a change of the owner who had it. */
  #dueAt: number | undefined = Infinity;

  get sums(): Sums {
    return this.#sums;
  }

  count(owner: Owner, now: number): void {
    this.forget(owner);
    const { wanted, demand, load } = owner;
    const { taken, holding, stored, demanding } = load;
    const dueAt = owner.dueAt(now);
    const counted = { taken, holding, stored, demanding, wanted, demand, dueAt };
    this.#counted.set(owner, counted);
    this.#sums = plus(this.#sums, counted, 1);
    if (owner.mayNeedDecision) this.deciding.add(owner);
    if (owner.mayResume) this.resuming.add(owner);
    if (this.#dueAt !== undefined) this.#dueAt = Math.min(this.#dueAt, dueAt);
  }

  forget(owner: Owner): void {
    const counted = this.#counted.get(owner);
    if (counted === undefined) return;
    this.#counted.delete(owner);
    this.#sums = plus(this.#sums, counted, -1);
    this.deciding.delete(owner);
    this.resuming.delete(owner);
    if (counted.dueAt < Infinity && this.#dueAt === counted.dueAt) this.#dueAt = undefined;
  }

  /**
   * The owners for whom a time limit has ended, and the first time after `now` at which a time
   * limit ends or a delayed resume is due. Visits all owners only if `#dueAt` is unknown or has
   * passed.
   */
  due(now: number): { readonly nextAt: number; readonly owners: readonly Owner[] } {
    if (this.#dueAt !== undefined && this.#dueAt > now) return { nextAt: this.#dueAt, owners: [] };
    const owners: Owner[] = [];
    let nextAt = Infinity;
    for (const [owner, counted] of this.#counted) {
      let { dueAt } = counted;
      if (dueAt <= now) {
        dueAt = owner.dueAt(now);
        this.#counted.set(owner, { ...counted, dueAt });
      }
      if (dueAt <= now) owners.push(owner);
      else if (dueAt < nextAt) nextAt = dueAt;
    }
    this.#dueAt = owners.length > 0 ? now : nextAt;
    return { nextAt, owners };
  }
}
