import type { Cap } from './caps.ts';
import type { QuotaRule } from './rules.ts';
import {
  excessOf,
  expiryOf,
  isFullFor,
  limitOf,
  makesRoom,
  type Limited,
  type Owner,
} from './owners.ts';
import { byTurn } from './automatic-resume.ts';
import { byRank } from './eviction.ts';
import { byCreation, byRequest, firstOf, type Slot } from './slot.ts';
import type { Everyone, Snapshot, View } from './snapshot.ts';
import type { Expiry } from './time-limits.ts';

/** One decision on a sandbox. The write of the decision fails if `slot.sandbox` is outdated. */
export type Decision =
  /** Frees the slot of a sandbox whose pod is gone. */
  | { readonly kind: 'release'; readonly slot: Slot }
  /** `resumed`: whether this is an automatic resume. */
  | { readonly kind: 'admit'; readonly slot: Slot; readonly resumed: boolean }
  /** `preemptor` gets the slot; undefined if the limit was lowered, or `slot` is a warm sandbox. */
  | {
      readonly kind: 'evict';
      readonly slot: Slot;
      readonly rule: QuotaRule;
      readonly preemptor: Slot | undefined;
    }
  /** A time limit of the template pauses the sandbox. */
  | { readonly kind: 'expire'; readonly slot: Slot; readonly reason: Expiry['reason'] }
  | {
      readonly kind: 'reject';
      readonly slot: Slot;
      readonly rule: QuotaRule;
      readonly current: number;
    }
  /** `maxSandboxes` is exceeded; the sandbox fails and gets no volume. */
  | { readonly kind: 'fail'; readonly slot: Slot; readonly cap: Cap; readonly current: number }
  /** Stores in the condition Admitted why the sandbox waits. */
  | { readonly kind: 'wait'; readonly slot: Slot; readonly rule: QuotaRule };

/**
 * The next decision; undefined if none is needed before the next change or before `wakeAt`. Pure.
 * The steps are tried in a fixed order, which guarantees:
 * - A sandbox is admitted only if every limit has room. Waiting sandboxes are admitted in the order
 *   of their requests, those with work before those without (`bare`). Automatic resumes come last.
 *   For all of these, the slots of warm sandboxes count as free, under every policy.
 * - A sandbox is evicted only if it is stalled, or runs without a start in progress. No sandbox is
 *   evicted for a waiting sandbox that can get a free slot, or a slot that is being freed. While
 *   the quota of the namespace evicts none and keeps sandboxes waiting, only a lowered limit
 *   evicts.
 * - A resume without work evicts only idle sandboxes. An automatic resume evicts only warm ones.
 * - A warm sandbox is admitted only to a slot that no other sandbox may take now.
 * - The rate of automatic resumes is limited.
 */
export function decide(snapshot: Snapshot, now: number): Decision | undefined {
  const view = snapshot.view(now);
  for (const step of steps) {
    const decision = step(view);
    if (decision !== undefined) return decision;
  }
  return undefined;
}

type Step = (view: View) => Decision | undefined;

const release: Step = ({ owners, warmSandboxes }) => {
  const [slot] = [...owners, warmSandboxes].flatMap(({ load }) => load.releasable);
  return slot && { kind: 'release', slot };
};

const expire: Step = ({ owners, now }) => {
  const slot = owners.find(({ load }) => expiryOf(load.expiring) <= now)?.load.expiring;
  return slot?.expiry && { kind: 'expire', slot, reason: slot.expiry.reason };
};

/** Fails the newest sandbox without a decision if there are more sandboxes than `maxSandboxes`. */
const failOverCap: Step = ({ owners, all }) => {
  for (const { cap, load } of [...owners, all]) {
    if (cap === undefined || load.stored <= cap.limit) continue;
    const slot = load.undecided.at(-1);
    if (slot !== undefined) return { kind: 'fail', slot, cap, current: load.stored - 1 };
  }
  return undefined;
};

/** Whether the namespace has a slot that no sandbox holds, not even a warm sandbox. */
const isSlotFree = ({ all, warmSandboxes }: View): boolean =>
  all.load.taken + warmSandboxes.load.taken < limitOf(all);

const admit: Step = (view) => {
  if (view.wanted === 0 || !isSlotFree(view)) return undefined;
  const slot = firstOf(readyIn(view), byRequest);
  return slot && { kind: 'admit', slot, resumed: false };
};

/** The first waiting sandbox of each owner whose own limit has room. */
const readyIn = ({ owners }: View): readonly Slot[] => owners.flatMap(({ ready }) => ready ?? []);

/** Rejects the last waiting sandbox if a full quota has the policy Reject. */
const reject: Step = (view) => {
  const { owners, all, wanted } = view;
  const tooMany = [
    ...owners.filter((owner) => owner.load.waiting.length > owner.wanted),
    ...(wanted > 0 && isFullFor(all, wanted) ? [all] : []),
  ];
  for (const { rule, load } of tooMany) {
    const slot = load.waiting.at(-1);
    if (rule?.onExceeded === 'Reject' && slot !== undefined)
      return { kind: 'reject', slot, rule, current: load.taken };
  }
  return undefined;
};

/** Number of warm sandboxes to evict so that this many waiting sandboxes get slots. */
const warmSandboxesInTheWay = ({ all, warmSandboxes: { load } }: View, newcomers: number): number =>
  Math.min(load.holding, all.load.holding + load.holding + newcomers - limitOf(all));

const evictWarmSandbox: Step = (view) =>
  warmSandboxesInTheWay(view, view.wanted) > 0 ? evictionOfWarmSandbox(view) : undefined;

function evictionOfWarmSandbox({ all: { rule }, warmSandboxes }: View): Decision | undefined {
  const slot = firstOf(warmSandboxes.load.candidates, byCreation);
  return slot && rule && { kind: 'evict', slot, rule, preemptor: undefined };
}

/**
 * Evicts because of a lowered limit, or for waiting sandboxes with work. If the namespace is full
 * and its policy does not evict, the limit of an owner evicts nothing for waiting sandboxes: a
 * freed slot would go to the sandbox that has waited longest.
 */
const evict: Step = ({ owners, all, demand, now }) => {
  const over = owners.filter((owner) => excessOf(owner, owner.load.demanding) > 0);
  const [overLimit, crowded] = [
    over.filter((owner) => owner.load.holding > limitOf(owner)),
    over.filter((owner) => owner.load.holding <= limitOf(owner)),
  ];
  return (
    firstEviction(overLimit, now) ??
    (isFullFor(all, demand) ? undefined : firstEviction(crowded, now)) ??
    (excessOf(all, demand) > 0 ? firstEviction([all], now, () => true, demand > 0) : undefined)
  );
};

const isIdle = ({ idleSince }: Slot): boolean => idleSince < Infinity;

/** Evicts idle sandboxes so that resumes without work get slots, after all sandboxes with work. */
const evictIdle: Step = ({ owners, all, wanted, now }) => {
  const crowded = isFullFor(all, wanted)
    ? []
    : owners.filter((owner) => excessOf(owner, owner.load.waiting.length) > 0);
  return (
    firstEviction(crowded, now, isIdle) ??
    (excessOf(all, wanted) > 0 ? firstEviction([all], now, isIdle) : undefined)
  );
};

const ownersUnder = (limited: Owner | Everyone): Iterable<Owner> =>
  'owners' in limited ? limited.owners.values() : [limited];

/** The eviction for the first limit in `limits` under which a sandbox may be evicted. */
function firstEviction(
  limits: readonly (Owner | Everyone)[],
  now: number,
  among: (slot: Slot) => boolean = () => true,
  hasPreemptor = true,
): Decision | undefined {
  for (const limited of limits) {
    const { rule } = limited;
    const firsts: Slot[] = [];
    for (const owner of ownersUnder(limited)) {
      const first = owner.evictable(rule, now).slots.find(among);
      if (first !== undefined) firsts.push(first);
    }
    const slot = firstOf(firsts, byRank(rule));
    if (slot === undefined || rule === undefined) continue;
    return {
      kind: 'evict',
      slot,
      rule,
      preemptor: hasPreemptor ? preemptorOf(limited) : undefined,
    };
  }
  return undefined;
}

/** The first waiting sandbox that gets neither a free slot nor a slot that is being freed. */
const preemptorOf = (limited: Limited): Slot | undefined =>
  makesRoom(limited)
    ? limited.load.waiting[Math.max(0, limitOf(limited) - limited.load.holding)]
    : undefined;

/** The first automatic resume of an owner that is due and that the policies allow. */
function resumeOf(owner: Owner, { all, now }: View): Slot | undefined {
  const { load, rule } = owner;
  const policies = [rule?.autoResume, all.rule?.autoResume];
  if (policies.includes('Never')) return undefined;
  const slot = load.resumable.find(({ resumesAt }) => resumesAt <= now);
  return slot?.unfinished === true || !policies.includes('Unfinished') ? slot : undefined;
}

/** Resumes a sandbox if waiting ones leave room: unfinished work first, then owners in turn. */
const resume: Step = (view) => {
  const isFree = isSlotFree(view);
  const hasPlace = isFree || warmSandboxesInTheWay(view, view.wanted + 1) > 0;
  if (!hasPlace || view.resumeRate.readyAt > view.now) return undefined;
  const turns = new Map<Slot, number>();
  for (const owner of view.resuming) {
    const slot = resumeOf(owner, view);
    if (slot !== undefined) turns.set(slot, owner.lastResume);
  }
  const slot = firstOf([...turns.keys()], byTurn(turns));
  if (slot === undefined) return undefined;
  return isFree ? { kind: 'admit', slot, resumed: true } : evictionOfWarmSandbox(view);
};

/** Admits a warm sandbox to a slot that nothing else may take now. */
const admitWarmSandbox: Step = (view) => {
  if (!isSlotFree(view)) return undefined;
  const waiting = [...view.warmSandboxes.slots()].filter(({ state }) => state === 'suspended');
  const slot = firstOf(waiting, byCreation);
  if (slot === undefined) return undefined;
  const isPlaceWanted = (): boolean =>
    view.wanted > 0 || view.resuming.some((owner) => resumeOf(owner, view) !== undefined);
  return limitOf(view.all) < Infinity && isPlaceWanted()
    ? undefined
    : { kind: 'admit', slot, resumed: false };
};

const explain: Step = ({ owners, all }) => {
  for (const owner of owners) {
    const slot = owner.load.waiting.find(({ explained }) => !explained);
    const rules = slot === owner.ready ? [all.rule, owner.rule] : [owner.rule, all.rule];
    const rule = rules.find((one) => one !== undefined);
    if (slot !== undefined && rule !== undefined) return { kind: 'wait', slot, rule };
  }
  return undefined;
};

const steps: readonly Step[] = [
  release,
  expire,
  failOverCap,
  admit,
  reject,
  evictWarmSandbox,
  evict,
  evictIdle,
  resume,
  admitWarmSandbox,
  explain,
];

/**
 * Time in milliseconds since 1970 when `decide` may return another result for an unchanged
 * snapshot; Infinity: never.
 */
export function wakeAt(snapshot: Snapshot, now: number): number {
  const view = snapshot.view(now);
  const { owners, resuming, all, wanted, warmSandboxes, resumeRate } = view;
  let first = view.dueAt;
  const at = (time: number): void => {
    if (time > now && time < first) first = time;
  };
  const crowded = owners.filter((owner) => excessOf(owner, owner.load.waiting.length) > 0);
  for (const limited of excessOf(all, wanted) > 0 ? [...crowded, all] : crowded)
    for (const owner of ownersUnder(limited)) at(owner.evictable(limited.rule, now).until);
  const mayResume =
    (isSlotFree(view) || warmSandboxes.load.holding > 0) &&
    resuming.some((owner) => resumeOf(owner, view) !== undefined);
  return mayResume ? Math.min(first, resumeRate.readyAt) : first;
}
