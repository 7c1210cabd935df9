import {
  findCondition,
  isTrue,
  type Condition,
  conditionUpdate,
  setConditions,
} from '../../resources/conditions.ts';
import { beginningOf } from '../../resources/plain-text.ts';
import {
  SandboxCondition,
  type Sandbox,
  poolLabel,
  poolLabelValue,
  templateVersionAnnotation,
  sandboxes,
} from '../../resources/sandbox.ts';
import { isReadyWarmSandbox } from '../../status/sandbox-phase.ts';
import {
  PoolReason,
  type SandboxPool,
  PoolCondition,
  type SandboxPoolState,
} from '../../resources/sandbox-pool.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { FailureCode, isWaitingCode } from '../sandbox/failure.ts';
import { isLossCode } from '../sandbox/pod-loss.ts';
import type { Clock } from '@conversation-operator/base/clock';
import { apiVersionOf, type NewObject } from '@conversation-operator/kube/object';
import { newUuid } from '@conversation-operator/base/uuid';
import { ownSandboxName } from '../../resources/ids.ts';

const templateVersionOf = ({ metadata }: SandboxTemplate): string =>
  `${metadata.uid}/${metadata.generation}`;

/**
 * A new warm sandbox, without an owner reference to the pool, because the garbage collector could
 * then delete a sandbox of a deleted pool although a start has just claimed it.
 */
export function newWarmSandbox(
  { metadata: { namespace, name } }: SandboxPool,
  template: SandboxTemplate,
  { clock, random }: { readonly clock: Clock; readonly random: () => number },
): NewObject<Sandbox> {
  const bytes = (count: number) =>
    Buffer.from(Array.from({ length: count }, () => Math.floor(random() * 256)));
  return {
    apiVersion: apiVersionOf(sandboxes),
    kind: sandboxes.kind,
    metadata: {
      name: ownSandboxName(newUuid(clock.now(), bytes)),
      namespace,
      labels: { [poolLabel]: poolLabelValue(name) },
      annotations: { [templateVersionAnnotation]: templateVersionOf(template) },
    },
    spec: { owner: '', poolName: name, templateName: template.metadata.name, replicas: 1 },
  };
}

export interface ObservedPool {
  readonly pool: SandboxPool;
  readonly template: SandboxTemplate | undefined;
  /** The warm sandboxes of the pool that are not being deleted, the oldest first. */
  readonly warmSandboxes: readonly Sandbox[];
  /** Number of created warm sandboxes that the cache does not show yet. */
  readonly unseen: number;
  /**
   * Maximum warm sandboxes of this pool. All pools share what the quotas of the namespace permit.
   */
  readonly room: number;
  /** Number of further warm sandboxes that the quotas of the namespace permit. */
  readonly free: number;
  /** Number of warm sandboxes that rate limit and back-off (`PoolPace`) permit to create now. */
  readonly allowance: number;
  /** Number of claimed warm sandboxes whose replacements are delayed. */
  readonly delayed: number;
  /** Whether the last warm sandbox failed to boot. Then only one at a time is created. */
  readonly isProbing: boolean;
  /** UIDs of warm sandboxes that have been ready. */
  readonly booted: ReadonlySet<string>;
}

export interface PoolPlan {
  /** Warm sandboxes to delete, each unless a start claims it first. */
  readonly remove: readonly Sandbox[];
  readonly create: number;
  /** Number of missing warm sandboxes that can not be created now. */
  readonly held: number;
  /** Warm sandboxes that did not boot; also in `remove`. */
  readonly failed: readonly Sandbox[];
  readonly ready: number;
  readonly reason: (typeof PoolReason)[keyof typeof PoolReason];
  readonly message: string;
}

export const isOutdated = ({ metadata }: Sandbox, template: SandboxTemplate): boolean =>
  metadata.annotations?.[templateVersionAnnotation] !== templateVersionOf(template);

/**
 * The reason why a pool of this template keeps no warm sandboxes; undefined if it may keep some. A
 * retained volume belongs to one owner from its creation on, and a warm sandbox has no owner.
 */
export function unfitness(
  templateName: string,
  template: SandboxTemplate | undefined,
): Pick<PoolPlan, 'reason' | 'message'> | undefined {
  if (template === undefined)
    return {
      reason: PoolReason.templateNotFound,
      message: `There is no SandboxTemplate ${templateName}.`,
    };
  const valid = findCondition(template.status?.conditions, 'Valid');
  if (valid?.status === 'False' && valid.observedGeneration === template.metadata.generation)
    return { reason: PoolReason.templateInvalid, message: beginningOf(valid.message, 1024) };
  if (template.spec.storage.retain)
    return {
      reason: PoolReason.templateRetainsVolumes,
      message: `The SandboxTemplate ${templateName} retains volumes (spec.storage.retain), and each of those belongs to one owner.`,
    };
  return undefined;
}

const isFailed = ({ status }: Sandbox): boolean =>
  isTrue(status?.conditions, SandboxCondition.failed);
/**
 * Whether the cluster removed the pod of a warm sandbox through no fault of its agent. The eviction
 * of a pod that has never been ready does not count, because its agent may have caused it.
 */
function isLost({ metadata, status }: Sandbox, booted: ReadonlySet<string>): boolean {
  const { reason = '' } = findCondition(status?.conditions, SandboxCondition.ready) ?? {};
  return reason === FailureCode.nodeLost || (isLossCode(reason) && booted.has(metadata.uid));
}
/** Whether a person has scaled the warm sandbox to 0 replicas, so that no start can claim it. */
const isPaused = ({ spec }: Sandbox): boolean => spec.replicas === 0;
/** The condition Ready of a warm sandbox that waits, for example for room in a ResourceQuota. */
function waitOf({ status }: Sandbox): Condition | undefined {
  const ready = findCondition(status?.conditions, SandboxCondition.ready);
  return ready !== undefined && isWaitingCode(ready.reason) ? ready : undefined;
}
const isAdmitted = ({ status }: Sandbox): boolean =>
  isTrue(status?.conditions, SandboxCondition.admitted);

/** Rank of a surplus warm sandbox. Those with the lowest rank are deleted first. */
const usefulness = (warmSandbox: Sandbox): number => {
  if (isReadyWarmSandbox(warmSandbox)) return 2;
  return isAdmitted(warmSandbox) ? 1 : 0;
};

/** Decides which warm sandboxes a pool creates and deletes. A pure function. */
export function decidePool(observed: ObservedPool): PoolPlan {
  const { pool, template, warmSandboxes, unseen, isProbing, booted } = observed;
  const { templateName, replicas } = pool.spec;
  const unfit = unfitness(templateName, template);
  if (template === undefined || unfit !== undefined) {
    const none = { remove: warmSandboxes, create: 0, held: 0, failed: [], ready: 0 };
    return { ...none, ...(unfit ?? { reason: PoolReason.templateNotFound, message: '' }) };
  }
  const wanted = Math.min(replicas, observed.room);
  const sound = warmSandboxes.filter(
    (warmSandbox) =>
      !isFailed(warmSandbox) && !isPaused(warmSandbox) && !isLost(warmSandbox, booted),
  );
  const useless = warmSandboxes.filter((warmSandbox) => !sound.includes(warmSandbox));
  const outdated = sound.filter((warmSandbox) => isOutdated(warmSandbox, template));
  const current = sound.filter((warmSandbox) => !isOutdated(warmSandbox, template));
  const surplus = current
    .toSorted((one, other) => usefulness(one) - usefulness(other))
    .slice(0, Math.max(0, current.length + unseen - wanted));
  const missing = Math.max(0, wanted - current.length - unseen);
  const isOneBooting =
    unseen > 0 ||
    current.some((warmSandbox) => isAdmitted(warmSandbox) && !isReadyWarmSandbox(warmSandbox));
  // Another warm sandbox would exceed the same ResourceQuota.
  const isQuotaFull = current.some(
    (warmSandbox) => waitOf(warmSandbox)?.reason === FailureCode.resourceQuotaExceeded,
  );
  const allowance = isQuotaFull || (isProbing && isOneBooting) ? 0 : observed.allowance;
  const due = Math.min(
    Math.max(0, missing - observed.delayed),
    isProbing ? 1 : Infinity,
    allowance,
  );
  const create = Math.min(due, Math.max(0, observed.free));
  // An outdated warm sandbox is deleted when its replacement is created, so that after an edit of
  // the template no more agents boot at once than the rate limit permits. If a quota has no room
  // for both, the outdated one is deleted first.
  const kept = Math.max(0, wanted - (current.length - surplus.length) - unseen - due);
  const replaced = outdated.slice(0, Math.max(0, outdated.length - kept));
  const ready = current.filter(
    (warmSandbox) => !surplus.includes(warmSandbox) && isReadyWarmSandbox(warmSandbox),
  ).length;
  return {
    remove: [...useless, ...replaced, ...surplus],
    create,
    held: missing - create,
    failed: useless.filter((warmSandbox) => isFailed(warmSandbox) && !isLost(warmSandbox, booted)),
    ready,
    ...conditionOf(observed, { current, ready, wanted }),
  };
}

function conditionOf(
  { pool: { spec, status }, room }: ObservedPool,
  counts: { readonly current: readonly Sandbox[]; readonly ready: number; readonly wanted: number },
): Pick<PoolPlan, 'reason' | 'message'> {
  const { current, ready, wanted } = counts;
  const { replicas } = spec;
  if (replicas === 0)
    return { reason: PoolReason.scaledToZero, message: 'The pool keeps no warm sandboxes.' };
  const state = `${ready} of ${replicas} warm sandboxes can be claimed`;
  if (ready >= replicas) return { reason: PoolReason.full, message: `${state}.` };
  if (room < replicas && ready >= wanted)
    return {
      reason: PoolReason.waitingForRoom,
      message: `${state}: maxSandboxes of a quota leaves no room for more.`,
    };
  const wait = current.map(waitOf).find((found) => found !== undefined);
  if (wait !== undefined)
    return {
      reason: PoolReason.waiting,
      message: beginningOf(`${state}. ${wait.reason}: ${wait.message}`, 1024),
    };
  if ((status?.failures ?? 0) > 0 && ready === 0)
    return {
      reason: PoolReason.spareFailed,
      message: `${state}. Consecutive warm sandboxes that did not boot: ${status?.failures ?? 0}.`,
    };
  if (current.some((warmSandbox) => !isAdmitted(warmSandbox)))
    return {
      reason: PoolReason.waitingForRoom,
      message: `${state}: the limit of active sandboxes in the namespace leaves no room for more.`,
    };
  return { reason: PoolReason.refilling, message: `${state}.` };
}

/** Name of a pool, and the number of warm sandboxes that it wants. */
interface Wish {
  readonly name: string;
  readonly wanted: number;
}

/**
 * The number of warm sandboxes that a pool may keep when all pools of a namespace divide `room`
 * equally. A pool that wants less than its part leaves the rest to the others.
 */
export function shareOfRoom(name: string, wishes: readonly Wish[], room: number): number {
  const ordered = wishes.toSorted(
    (one, other) => one.wanted - other.wanted || (one.name < other.name ? -1 : 1),
  );
  let left = room;
  for (const [index, wish] of ordered.entries()) {
    const share = Math.min(wish.wanted, Math.floor(left / (ordered.length - index)));
    if (wish.name === name) return share;
    left -= share;
  }
  return 0;
}

interface ReconciledPool {
  readonly pool: SandboxPool;
  readonly plan: PoolPlan;
  readonly warmSandboxes: readonly Sandbox[];
  /** Number of stored warm sandboxes that the cache does not show yet. */
  readonly unseen: number;
  /** Number of consecutive warm sandboxes that have not booted. */
  readonly failures: number;
  readonly refused: string | undefined;
  readonly now: string;
}

export function poolStatus(reconciled: ReconciledPool): SandboxPoolState {
  const { pool, plan, warmSandboxes, unseen, failures, refused, now } = reconciled;
  const { name, generation } = pool.metadata;
  const { reason, ready, remove } = plan;
  const isReady = reason === PoolReason.full || reason === PoolReason.scaledToZero;
  const message =
    refused === undefined
      ? plan.message
      : `${plan.message} The API server refuses more: ${refused}`;
  return {
    observedGeneration: generation,
    replicas: warmSandboxes.length - remove.length + unseen,
    readyReplicas: ready,
    selector: `${poolLabel}=${poolLabelValue(name)}`,
    ...(failures === 0 ? {} : { failures }),
    conditions: setConditions(
      pool.status?.conditions,
      [conditionUpdate(PoolCondition.ready, isReady, reason, beginningOf(message, 2048))],
      generation,
      now,
    ),
  };
}
