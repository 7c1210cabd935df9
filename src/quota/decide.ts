import type { Cap } from '../resources/quota-caps.ts';
import type { QuotaRule } from '../resources/quota-rules.ts';
import {
  excessOf,
  expiryOf,
  hasRoom,
  isFullFor,
  limitOf,
  makesRoom,
  type Limited,
} from './load.ts';
import { byCreation, byEviction, byRequest, byResume, evictableAt, firstOf } from './order.ts';
import type { Slot } from './slot.ts';
import type { Owner, Snapshot, View } from './snapshot.ts';
import type { Expiry } from './timing.ts';

/**
 * One decision on a sandbox. Its write fails unless the sandbox still has the version of
 * `slot.sandbox`.
 */
export type Decision =
  /** The pod is gone, and the sandbox needs its slot no more. */
  | { readonly kind: 'release'; readonly slot: Slot }
  /** `resumed`: an automatic resume. */
  | { readonly kind: 'admit'; readonly slot: Slot; readonly resumed: boolean }
  /** The preemptor is undefined where the limit was lowered, and for the eviction of a spare. */
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
  /** The condition Admitted says why the sandbox waits. */
  | { readonly kind: 'wait'; readonly slot: Slot; readonly rule: QuotaRule };

/**
 * The next decision; undefined until something changes, or until `wakeAt`. Pure. The rules are in
 * the order in which they decide, and guarantee:
 * - A sandbox is admitted only where every limit has room: newcomers in the order of their
 *   requests, those with work to do before bare resumes, and all newcomers before automatic
 *   resumes. Spares are room for all of these, whatever the policy.
 * - A sandbox is evicted only if it runs and no start is under way in it, or if it is stalled; and
 *   no more of them than newcomers wait beyond the slots that are being freed. While the namespace
 *   keeps newcomers waiting and makes no room, only a lowered limit evicts.
 * - A bare resume evicts only idle sandboxes. An automatic resume evicts none.
 * - A spare is admitted only where the namespace has room that nothing else may take now.
 * - Automatic resumes have a bounded rate.
 */
export function decide(snapshot: Snapshot, now: number): Decision | undefined {
  const view = snapshot.view(now);
  for (const rule of rules) {
    const decision = rule(view);
    if (decision !== undefined) return decision;
  }
  return undefined;
}

type Rule = (view: View) => Decision | undefined;

const release: Rule = ({ owners, spares }) => {
  const [slot] = [...owners, spares].flatMap(({ load }) => load.releasable);
  return slot && { kind: 'release', slot };
};

const expire: Rule = ({ owners, now }) => {
  const [slot] = owners.flatMap(({ load }) => load.expiring).filter((one) => expiryOf(one) <= now);
  return slot?.expiry && { kind: 'expire', slot, reason: slot.expiry.reason };
};

/** Fails the undecided sandbox above `maxSandboxes` that was created last. */
const failOverCap: Rule = ({ owners, all }) => {
  for (const { cap, load } of [...owners, all]) {
    if (cap === undefined || load.stored <= cap.limit) continue;
    const slot = load.undecided.at(-1);
    if (slot !== undefined) return { kind: 'fail', slot, cap, current: load.stored - 1 };
  }
  return undefined;
};

/** Whether the namespace has a slot that no sandbox holds, not even a spare. */
const isSlotFree = ({ all, spares }: View): boolean =>
  all.load.taken + spares.load.taken < limitOf(all);

const admit: Rule = (view) => {
  if (view.wanted === 0 || !isSlotFree(view)) return undefined;
  const slot = firstOf(readyIn(view), byRequest);
  return slot && { kind: 'admit', slot, resumed: false };
};

/** The first newcomer of each owner who has room. */
const readyIn = ({ owners }: View): readonly Slot[] => owners.flatMap(({ ready }) => ready ?? []);

/** Rejects the last newcomer where the policy Reject lets no more of them wait. */
const reject: Rule = (view) => {
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

/** Number of spares that have to go so that this many sandboxes of owners get a slot. */
const sparesInTheWay = ({ all, spares: { load } }: View, newcomers: number): number =>
  Math.min(load.holding, all.load.holding + load.holding + newcomers - limitOf(all));

/** Spares make room under every policy. */
const evictSpare: Rule = (view) =>
  sparesInTheWay(view, view.wanted) > 0 ? evictionOfSpare(view) : undefined;

function evictionOfSpare({ all: { rule }, spares }: View): Decision | undefined {
  const slot = firstOf(spares.load.candidates, byCreation);
  return slot && rule && { kind: 'evict', slot, rule, preemptor: undefined };
}

/**
 * Evicts for newcomers with work to do, or for a limit that was lowered. While the namespace keeps
 * newcomers waiting and makes no room, an owner's newcomers evict nothing: the slot would go to the
 * newcomer that has waited longest.
 */
const evict: Rule = ({ owners, all, demand, now }) => {
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

/** Evicts idle sandboxes for bare resumes, which come after the newcomers with work to do. */
const evictIdle: Rule = ({ owners, all, wanted, now }) => {
  const crowded = isFullFor(all, wanted)
    ? []
    : owners.filter((owner) => excessOf(owner, owner.load.waiting.length) > 0);
  return (
    firstEviction(crowded, now, isIdle) ??
    (excessOf(all, wanted) > 0 ? firstEviction([all], now, isIdle) : undefined)
  );
};

/** The eviction under the first of the limits that has a sandbox for it. */
function firstEviction(
  limits: readonly Limited[],
  now: number,
  among: (slot: Slot) => boolean = () => true,
  hasPreemptor = true,
): Decision | undefined {
  for (const limited of limits) {
    const { rule, load } = limited;
    const ripe = load.candidates.filter((slot) => evictableAt(slot, rule) <= now && among(slot));
    const slot = firstOf(ripe, byEviction(rule, now));
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

/**
 * The newcomer that needs one more eviction: those before it get a slot that is free, or that is
 * being freed.
 */
const preemptorOf = (limited: Limited): Slot | undefined =>
  makesRoom(limited)
    ? limited.load.waiting[Math.max(0, limitOf(limited) - limited.load.holding)]
    : undefined;

/**
 * Resumes automatically where newcomers leave room: unfinished work first, then owners take turns.
 */
const resume: Rule = (view) => {
  if (view.resumeRate.readyAt > view.now) return undefined;
  const [first] = resumesIn(view).sort(
    (one, other) =>
      Number(other.slot.unfinished) - Number(one.slot.unfinished) ||
      one.owner.lastResume - other.owner.lastResume ||
      byResume(one.slot, other.slot),
  );
  if (first === undefined) return undefined;
  if (isSlotFree(view)) return { kind: 'admit', slot: first.slot, resumed: true };
  return sparesInTheWay(view, view.wanted + 1) > 0 ? evictionOfSpare(view) : undefined;
};

/** The first automatic resume of each owner who has room that no newcomer of theirs takes. */
function resumesIn({ owners, all, now }: View): { readonly owner: Owner; readonly slot: Slot }[] {
  return owners.flatMap((owner) => {
    const { load, rule } = owner;
    if (load.resumable.length === 0 || load.waiting.length > 0 || !hasRoom(owner)) return [];
    const policies = [rule?.autoResume, all.rule?.autoResume];
    if (policies.includes('Never')) return [];
    const slot = load.resumable.find(({ resumesAt }) => resumesAt <= now);
    const isOne = slot !== undefined && (slot.unfinished || !policies.includes('Unfinished'));
    return isOne ? [{ owner, slot }] : [];
  });
}

const admitSpare: Rule = (view) => {
  const waiting = [...view.spares.slots()].filter(({ state }) => state === 'suspended');
  const slot = isSlotFree(view) ? firstOf(waiting, byCreation) : undefined;
  const isHeld = limitOf(view.all) < Infinity && (view.wanted > 0 || resumesIn(view).length > 0);
  return isHeld ? undefined : slot && { kind: 'admit', slot, resumed: false };
};

const explain: Rule = ({ owners, all }) => {
  for (const owner of owners) {
    const slot = owner.load.waiting.find(({ explained }) => !explained);
    const rules = slot === owner.ready ? [all.rule, owner.rule] : [owner.rule, all.rule];
    const rule = rules.find((one) => one !== undefined);
    if (slot !== undefined && rule !== undefined) return { kind: 'wait', slot, rule };
  }
  return undefined;
};

const rules: readonly Rule[] = [
  release,
  expire,
  failOverCap,
  admit,
  reject,
  evictSpare,
  evict,
  evictIdle,
  resume,
  admitSpare,
  explain,
];

/**
 * Time when `decide` may return another result without any change of the snapshot, in milliseconds
 * since 1970; Infinity: never.
 */
export function wakeAt(snapshot: Snapshot, now: number): number {
  const view = snapshot.view(now);
  const { all, wanted, spares, resumeRate } = view;
  const owners = [...snapshot.owners()];
  const crowded = [
    ...view.owners.filter((owner) => excessOf(owner, owner.load.waiting.length) > 0),
    ...(excessOf(all, wanted) > 0 ? [all] : []),
  ];
  const times = [
    ...crowded.flatMap(({ rule, load }) => load.candidates.map((slot) => evictableAt(slot, rule))),
    ...view.owners.flatMap(({ load }) => load.resumable.map(({ resumesAt }) => resumesAt)),
    ...owners.flatMap(({ load }) => load.expiring.slice(0, 1).map(expiryOf)),
  ];
  const mayResume = (isSlotFree(view) || spares.load.holding > 0) && resumesIn(view).length > 0;
  return times
    .filter((time) => time > now)
    .reduce((one, other) => Math.min(one, other), mayResume ? resumeRate.readyAt : Infinity);
}
