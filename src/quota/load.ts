import type { QuotaRule } from './rules.ts';
import { byCreation, byRequest, byResume } from './order.ts';
import type { Slot } from './slot.ts';

/** The sandboxes that share a limit, by what a decision asks of them. */
export interface Load {
  /** Number of slots that count against the limit. */
  readonly taken: number;
  /** Number of taken slots that no decision has asked back. */
  readonly holding: number;
  /** Number of sandboxes that count against `maxSandboxes`. */
  readonly stored: number;
  /** Number of waiting newcomers that have work to do; the other newcomers are bare resumes. */
  readonly demanding: number;
  /** In the order of admission. */
  readonly waiting: readonly Slot[];
  /** Slots that resume automatically, now or after a delay, in the order of these resumes. */
  readonly resumable: readonly Slot[];
  /** Slots that may be evicted, now or later. */
  readonly candidates: readonly Slot[];
  /** Stored sandboxes without a first decision, in the order of their creation. */
  readonly undecided: readonly Slot[];
  readonly releasable: readonly Slot[];
  /** The slot whose time limit ends first. */
  readonly expiring: Slot | undefined;
}

const holds = ({ state }: Slot): boolean => state === 'starting' || state === 'running';
const mayBeEvicted = ({ state, stalledAt }: Slot): boolean =>
  state === 'running' || (state === 'starting' && stalledAt < Infinity);
/** Time when the time limit of a template pauses a sandbox; Infinity: never. */
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
    ...{ taken, holding, stored, demanding },
    ...{ waiting, resumable, candidates, undecided, releasable, expiring },
  };
}

type Counts = Pick<Load, 'taken' | 'holding' | 'stored' | 'demanding'>;
type Loaded = Pick<Limited, 'load'>;

/**
 * The load of all owners. Its lists are put together when a decision asks for them; newcomers have
 * only the owners that a decision visits.
 */
export function sumOf(
  { taken, holding, stored, demanding }: Counts,
  owners: ReadonlyMap<string, Loaded>,
  deciding: Iterable<Loaded>,
): Load {
  return {
    ...{ taken, holding, stored, demanding },
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
    // No limit counts these.
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
export const hasRoom = (limited: Limited): boolean => limited.load.taken < limitOf(limited);
/** Whether newcomers have others evicted. */
export const makesRoom = ({ rule }: Pick<Limited, 'rule'>): boolean =>
  rule?.onExceeded === 'PauseOldest' || rule?.onExceeded === 'PauseLongestIdle';

/** Whether a limit keeps some of these newcomers waiting and makes no room for them. */
export const isFullFor = (limited: Limited, newcomers: number): boolean =>
  !makesRoom(limited) && limited.load.holding + newcomers > limitOf(limited);

/** Number of evictions that bring a limit within its bounds, those for newcomers included. */
export const excessOf = (limited: Limited, newcomers: number): number =>
  limited.load.holding + (makesRoom(limited) ? newcomers : 0) - limitOf(limited);
