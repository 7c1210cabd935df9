import { isCapExceeded } from './caps.ts';
import { findCondition, isTrue, type Condition } from '../resources/conditions.ts';
import { isStartOver, startStatusOf } from '../resources/conversation.ts';
import {
  SandboxCondition,
  SandboxReason,
  isMadeForConversation,
  isWarmSandbox,
  resumeRequestOf,
  type Sandbox,
} from '../resources/sandbox.ts';
import { isPausingReason, slotTaken } from '../status/sandbox-phase.ts';
import {
  hasUndelivered,
  isRunWanted,
  isToContinue,
  isUnderWay,
  isUnfinished,
  isWorking,
  time,
} from './idleness.ts';
import { isAutomatic, isRequested, resumeDelayMs } from './automatic-resume.ts';
import { timelessWarmSandbox, timingOf, type SlotFacts } from './time-limits.ts';
import type { Slot, SlotState } from './slot.ts';

const admittedOf = ({ status }: Sandbox): Condition | undefined =>
  findCondition(status?.conditions, SandboxCondition.admitted);

type Inside = Pick<
  SlotFacts,
  'sandbox' | 'conversations' | 'unknownStart' | 'orphaned' | 'hasForeignReferences'
>;

/**
 * Whether the sandbox was created for a conversation, and the starts of all its conversations have
 * failed, so that nothing can ever run in it.
 */
const isFailedStart = ({
  sandbox,
  conversations,
  unknownStart,
  hasForeignReferences,
}: Inside): boolean =>
  unknownStart !== true &&
  hasForeignReferences !== true &&
  conversations.length > 0 &&
  isMadeForConversation(sandbox) &&
  conversations.every((conversation) => startStatusOf(conversation) === 'ERROR');

/** An admitted warm sandbox counts as running even if it starts: its eviction loses no work. */
const stateOfWarmSandbox = (isAdmitted: boolean, taken: boolean): SlotState => {
  if (isAdmitted) return 'running';
  return taken ? 'freeing' : 'suspended';
};

function stateOf(inside: Inside): SlotState {
  const { sandbox, conversations, unknownStart = false } = inside;
  const { metadata, spec, status } = sandbox;
  const admitted = admittedOf(sandbox);
  const taken = slotTaken(sandbox);
  const wanted =
    metadata.deletionTimestamp === undefined &&
    spec.replicas === 1 &&
    !isTrue(status?.conditions, SandboxCondition.failed);
  if (!wanted) return taken ? 'freeing' : 'none';
  if (isWarmSandbox(sandbox)) return stateOfWarmSandbox(admitted?.status === 'True', taken);
  if (admitted?.status === 'True') {
    const isStarted =
      isTrue(status?.conditions, SandboxCondition.ready) &&
      status?.activeSinceTime !== undefined &&
      !unknownStart &&
      conversations.every((conversation) => isStartOver(startStatusOf(conversation)));
    return isStarted ? 'running' : 'starting';
  }
  if (taken) return 'freeing';
  if (isFailedStart(inside)) return 'none';
  if (admitted === undefined || !isPausingReason(admitted.reason) || isRequested(sandbox))
    return 'waiting';
  // An agent that was paused as idle may have work: a message has reached it just before the pause.
  const mayResume =
    admitted.reason === SandboxReason.quota ||
    (admitted.reason === SandboxReason.idle && conversations.some(isWorking)) ||
    (admitted.reason === SandboxReason.budgetExhausted && conversations.some(isToContinue));
  return mayResume && (status?.automaticResumes === undefined || isUnfinishedIn(inside))
    ? 'resumable'
    : 'suspended';
}

const usingStates: ReadonlySet<SlotState> = new Set(['waiting', 'starting', 'running']);
/** Whether a sandbox waits for a slot, or has a slot that it may keep. */
export const usesSlot = (sandbox: Sandbox): boolean =>
  usingStates.has(stateOf({ sandbox, conversations: [] }));

const isUnfinishedIn = ({ sandbox, conversations }: Inside): boolean =>
  (sandbox.status?.interruptedConversationIDs?.length ?? 0) > 0 || conversations.some(isUnfinished);

/** Whether a resume brings no work, because there is no start, message or run to continue. */
function isBare({
  sandbox,
  conversations,
  unknownStart = false,
  orphaned = false,
}: Inside): boolean {
  const present = conversations.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  return (
    (orphaned || sandbox.status?.lastContainerID !== undefined) &&
    !unknownStart &&
    !present.some((conversation) => isUnderWay(conversation) || hasUndelivered(conversation)) &&
    !isRunWanted(sandbox, present)
  );
}

const waitingReasons: ReadonlySet<string> = new Set([
  SandboxReason.waitingForQuota,
  SandboxReason.waitingForIdleSandbox,
]);
export const isWaitingReason = (reason: string): boolean => waitingReasons.has(reason);
export const waitingReasonOf = ({ bare }: Pick<Slot, 'bare'>): string =>
  bare ? SandboxReason.waitingForIdleSandbox : SandboxReason.waitingForQuota;

/** Whether the owner has set `spec.replicas` to 0 and back to 1 since the last decision. */
function isScaledSince(sandbox: Sandbox): boolean {
  const { generation } = sandbox.metadata;
  return generation > (admittedOf(sandbox)?.observedGeneration ?? generation);
}

/**
 * Maximum age in milliseconds of a request to resume when this process first sees it. An owner can
 * write any time into the annotation, and must not get a better position by an older time.
 */
const maxRequestAgeMs = 1_000;

/**
 * The time of the request of a waiting sandbox. The annotation of an earlier resume is never
 * removed, so a stored time counts only if it is later than the last pause. The creation time does
 * not count for a sandbox that was created paused.
 */
function requestTime(sandbox: Sandbox, now: number): number {
  const { metadata, status } = sandbox;
  const admitted = admittedOf(sandbox);
  const created = time(metadata.creationTimestamp, now);
  if (admitted === undefined && metadata.generation === 1) return Math.min(now, created);
  const waitingSince = isWaitingReason(admitted?.reason ?? '')
    ? time(status?.waitingSinceTime, now)
    : undefined;
  if (waitingSince !== undefined && !isScaledSince(sandbox)) return waitingSince;
  const request = resumeRequestOf(sandbox);
  const asked = request === status?.observedResumeRequest ? now : time(request, now);
  const pausedSince = admitted === undefined ? created : time(admitted.lastTransitionTime, 0);
  if (asked <= Math.max(waitingSince ?? 0, pausedSince)) return now;
  return Math.min(now, Math.max(asked, now - maxRequestAgeMs));
}

/**
 * Whether the condition Admitted explains why a sandbox waits. An orphaned sandbox needs no
 * explanation, because garbage collection removes it.
 */
function isExplained({ sandbox, orphaned = false }: Inside, bare: boolean): boolean {
  const isCurrent =
    admittedOf(sandbox)?.reason === waitingReasonOf({ bare }) &&
    sandbox.status?.waitingSinceTime !== undefined;
  return orphaned || (isCurrent && !isScaledSince(sandbox));
}

/** Computes the slot of a sandbox, on which the decisions of quotas are based. Pure. */
export function classify(facts: SlotFacts): Slot {
  const {
    sandbox,
    conversations,
    now,
    steady = (_name: string, ms: number): number => ms,
    hasForeignReferences = false,
  } = facts;
  const { metadata, spec, status } = sandbox;
  const admitted = admittedOf(sandbox);
  const state = stateOf(facts);
  const bare = state === 'waiting' && isBare(facts);
  const warmSandbox = isWarmSandbox(sandbox);
  const { automaticResumes } = status ?? {};
  return {
    uid: metadata.uid,
    name: metadata.name,
    owner: spec.owner,
    state,
    warmSandbox,
    taken: slotTaken(sandbox),
    sandbox,
    requestedAt: state === 'waiting' ? requestTime(sandbox, now) : 0,
    bare,
    explained: isExplained(facts, bare),
    ...(warmSandbox
      ? timelessWarmSandbox
      : timingOf(facts, state === 'running' || state === 'starting' ? state : undefined)),
    confirming: conversations.some(
      (conversation) => conversation.status?.executionStatus === 'waiting_for_confirmation',
    ),
    automatic: (state === 'starting' || state === 'running') && isAutomatic(sandbox, conversations),
    pausedSince: time(admitted?.lastTransitionTime, now),
    unfinished: isUnfinishedIn(facts),
    resumesAt:
      state === 'resumable' && automaticResumes !== undefined
        ? steady('resumed', time(automaticResumes.lastTime, now)) + resumeDelayMs(automaticResumes)
        : 0,
    releasable:
      state === 'freeing' &&
      admitted?.status === 'True' &&
      status?.replicas !== 1 &&
      metadata.deletionTimestamp === undefined,
    stored:
      metadata.deletionTimestamp === undefined &&
      !isCapExceeded(findCondition(status?.conditions, SandboxCondition.failed)?.reason),
    undecided:
      state === 'waiting' &&
      admitted === undefined &&
      (hasForeignReferences || !isMadeForConversation(sandbox)),
  };
}
