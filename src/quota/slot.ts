import { isCapExceeded } from '../resources/cap-exceeded.ts';
import { findCondition, isTrue, type Condition } from '../resources/conditions.ts';
import { conversations as conversationKind, isStartOver, startStatusOf } from '../resources/conversation.ts';
import { SandboxCondition, SandboxReason, isPausingReason, resumeRequestOf, slotTaken, type Sandbox } from '../resources/sandbox.ts';
import { hasUndelivered, isRunWanted, isUnderWay, isUnfinished, isWorking } from './agent-work.ts';
import { isAutomatic, isRequested, resumeDelayMs } from './automatic-resume.ts';
import { time, unchanged, type SlotFacts } from './slot-facts.ts';
import { timingOf, type Timing } from './slot-timing.ts';

export type SlotState =
  /** It wants nothing: paused by its owner, failed, or being deleted. */
  | 'none'
  /** A newcomer: it wants a slot because somebody asked for it. */
  | 'waiting'
  /** Admitted, and on its way: its agent, or the start of a conversation in it. Not taken away from it before `stalledAt`. */
  | 'starting'
  | 'running'
  /** On its way out; its slot is free when its pod is gone. */
  | 'freeing'
  /** The quota has paused it, or its idleness while it worked after all: it comes back by itself when there is room. */
  | 'resumable'
  /** Paused by its idleness or its age, or refused: it comes back when somebody asks for it. */
  | 'suspended';

/** What a quota has to know of one sandbox. Times are milliseconds since 1970. */
export interface Slot extends Timing {
  readonly uid: string;
  readonly name: string;
  readonly owner: string;
  readonly state: SlotState;
  /** It counts against the limit. */
  readonly taken: boolean;
  readonly sandbox: Sandbox;
  /** Waiting: since when. */
  readonly requestedAt: number;
  /** Waiting: resumed without a start, a message or a run. No agent that works is paused for it. */
  readonly bare: boolean;
  /** Waiting: its condition says so. */
  readonly explained: boolean;
  /** Running: its agent waits for a confirmation by a person. */
  readonly confirming: boolean;
  /** Starting or running: it came back by itself, and no person has asked for anything in it since. */
  readonly automatic: boolean;
  /** Resumable: since when. */
  readonly pausedSince: number;
  /** Resumable: a run or a start was cut off. */
  readonly unfinished: boolean;
  /** Resumable: it does not come back before. 0: at once. */
  readonly resumesAt: number;
  /** Admitted, and needs it no more. */
  readonly releasable: boolean;
  /** It counts for what may be stored: there, not being deleted, and not refused for that very reason. */
  readonly stored: boolean;
  /** Waiting for the first decision on it, and made for no conversation, whose start would have decided. */
  readonly undecided: boolean;
}

const admittedOf = ({ status }: Sandbox): Condition | undefined => findCondition(status?.conditions, SandboxCondition.admitted);

type Inside = Pick<SlotFacts, 'sandbox' | 'conversations' | 'unknownStart' | 'orphaned'>;

const isMadeForConversation = ({ metadata: { ownerReferences } }: Sandbox): boolean =>
  ownerReferences?.some(({ kind }) => kind === conversationKind.kind) === true;

/** The start of every conversation in a sandbox that was made for one has failed: nothing can ever run in it. */
const isFailedStart = ({ sandbox, conversations, unknownStart }: Inside): boolean =>
  unknownStart !== true &&
  conversations.length > 0 &&
  isMadeForConversation(sandbox) &&
  conversations.every((conversation) => startStatusOf(conversation) === 'ERROR');

function stateOf(inside: Inside): SlotState {
  const { sandbox, conversations, unknownStart = false } = inside;
  const { metadata, spec, status } = sandbox;
  const admitted = admittedOf(sandbox);
  const taken = slotTaken(sandbox);
  const wanted = metadata.deletionTimestamp === undefined && spec.replicas === 1 && !isTrue(status?.conditions, SandboxCondition.failed);
  if (!wanted) return taken ? 'freeing' : 'none';
  if (admitted?.status === 'True') {
    const settled =
      isTrue(status?.conditions, SandboxCondition.ready) &&
      status?.activeSinceTime !== undefined &&
      !unknownStart &&
      conversations.every((conversation) => isStartOver(startStatusOf(conversation)));
    return settled ? 'running' : 'starting';
  }
  if (taken) return 'freeing';
  if (isFailedStart(inside)) return 'none';
  if (admitted === undefined || !isPausingReason(admitted.reason) || isRequested(sandbox)) return 'waiting';
  // A message may reach an agent in the moment in which it is paused for its idleness, before anybody here has heard of it.
  const comesBack = admitted.reason === SandboxReason.quota || (admitted.reason === SandboxReason.idle && conversations.some(isWorking));
  return comesBack && (status?.automaticResumes === undefined || isUnfinishedIn(inside)) ? 'resumable' : 'suspended';
}

const usingStates: ReadonlySet<SlotState> = new Set(['waiting', 'starting', 'running']);
/** It has a slot, or asks for one, and nobody has asked for it back. */
export const usesSlot = (sandbox: Sandbox): boolean => usingStates.has(stateOf({ sandbox, conversations: [] }));

const isUnfinishedIn = ({ sandbox, conversations }: Inside): boolean =>
  (sandbox.status?.interruptedConversationIDs?.length ?? 0) > 0 || conversations.some(isUnfinished);

/** Nothing is to be done in it: a person only wants to see it run, or the conversation that asked for it is deleted. */
function isBare({ sandbox, conversations, unknownStart = false, orphaned = false }: Inside): boolean {
  const present = conversations.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  return (
    (orphaned || sandbox.status?.lastContainerID !== undefined) &&
    !unknownStart &&
    !present.some((conversation) => isUnderWay(conversation) || hasUndelivered(conversation)) &&
    !isRunWanted(sandbox, present)
  );
}

const waitingReasons: ReadonlySet<string> = new Set([SandboxReason.waitingForQuota, SandboxReason.waitingForIdleSandbox]);
/** The reason that the condition Admitted of a waiting sandbox gives. */
export const waitingReasonOf = ({ bare }: Pick<Slot, 'bare'>): string =>
  bare ? SandboxReason.waitingForIdleSandbox : SandboxReason.waitingForQuota;

/** Whether the owner of a sandbox turned `spec.replicas` off and on again since the last decision on it. */
function isScaledSince(sandbox: Sandbox): boolean {
  const { generation } = sandbox.metadata;
  return generation > (admittedOf(sandbox)?.observedGeneration ?? generation);
}

/**
 * When a waiting sandbox was asked for. A stored time counts only if it is newer than the last pause: the annotation of an earlier
 * resume stays where it is, and would keep its place in the queue for ever.
 */
function requestTime(sandbox: Sandbox, now: number): number {
  const { metadata, status } = sandbox;
  const admitted = admittedOf(sandbox);
  if (admitted === undefined) return Math.min(now, time(metadata.creationTimestamp, now));
  const waitingSince = waitingReasons.has(admitted.reason) ? time(status?.waitingSinceTime, now) : undefined;
  if (waitingSince !== undefined && !isScaledSince(sandbox)) return waitingSince;
  const request = resumeRequestOf(sandbox);
  const asked = request === status?.observedResumeRequest ? now : time(request, now);
  return asked > Math.max(waitingSince ?? 0, time(admitted.lastTransitionTime, 0)) ? Math.min(now, asked) : now;
}

/** Whether the condition of a waiting sandbox says why. Nobody reads that of one that is about to be removed. */
function isExplained({ sandbox, orphaned = false }: Inside, bare: boolean): boolean {
  const isSaid = admittedOf(sandbox)?.reason === waitingReasonOf({ bare }) && sandbox.status?.waitingSinceTime !== undefined;
  return orphaned || (isSaid && !isScaledSince(sandbox));
}

/** What a sandbox is to its quotas. Pure. */
export function classify(facts: SlotFacts): Slot {
  const { sandbox, conversations, now, steady = unchanged } = facts;
  const { metadata, spec, status } = sandbox;
  const admitted = admittedOf(sandbox);
  const state = stateOf(facts);
  const bare = state === 'waiting' && isBare(facts);
  const { automaticResumes } = status ?? {};
  return {
    uid: metadata.uid,
    name: metadata.name,
    owner: spec.owner,
    state,
    taken: slotTaken(sandbox),
    sandbox,
    requestedAt: state === 'waiting' ? requestTime(sandbox, now) : 0,
    bare,
    explained: isExplained(facts, bare),
    ...timingOf(facts, state === 'running' || state === 'starting' ? state : undefined),
    confirming: conversations.some((conversation) => conversation.status?.executionStatus === 'waiting_for_confirmation'),
    automatic: (state === 'starting' || state === 'running') && isAutomatic(sandbox, conversations),
    pausedSince: time(admitted?.lastTransitionTime, now),
    unfinished: isUnfinishedIn(facts),
    resumesAt:
      state === 'resumable' && automaticResumes !== undefined
        ? steady(time(automaticResumes.lastTime, now)) + resumeDelayMs(automaticResumes)
        : 0,
    releasable: state === 'freeing' && admitted?.status === 'True' && status?.replicas !== 1 && metadata.deletionTimestamp === undefined,
    stored: metadata.deletionTimestamp === undefined && !isCapExceeded(findCondition(status?.conditions, SandboxCondition.failed)?.reason),
    undecided: state === 'waiting' && admitted === undefined && !isMadeForConversation(sandbox),
  };
}
