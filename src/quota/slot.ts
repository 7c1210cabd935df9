import { findCondition, isTrue } from '../resources/conditions.ts';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import { isStartOver, startStatusOf, untoldMessages } from '../resources/conversation.ts';
import {
  SandboxCondition,
  SandboxReason,
  isPausingReason,
  resumeRequestOf,
  resumeRequestedAnnotation,
  slotTaken,
  type Sandbox,
} from '../resources/sandbox.ts';
import { durationMs, type SandboxTemplate } from '../resources/sandbox-template.ts';

export type SlotState =
  /** It wants nothing: paused by its owner, failed, or being deleted. */
  | 'none'
  /** A newcomer: it wants a slot because somebody asked for it. */
  | 'waiting'
  /** Admitted, and on its way: its agent, or the start of a conversation in it. Never taken away from it. */
  | 'starting'
  | 'running'
  /** On its way out; its slot is free when its pod is gone. */
  | 'freeing'
  /** The quota has paused it, or its idleness while it worked after all: it comes back by itself when there is room. */
  | 'resumable'
  /** Paused by its idleness or its age, or refused: it comes back when somebody asks for it. */
  | 'resting';

export interface Expiry {
  readonly at: number;
  readonly reason: typeof SandboxReason.idle | typeof SandboxReason.maxActiveTime;
  /** The template's time limit, as it stands there. */
  readonly limit: string;
}

/** What a quota has to know of one sandbox. Times are milliseconds since 1970. */
export interface Slot {
  readonly uid: string;
  readonly name: string;
  readonly owner: string;
  readonly state: SlotState;
  /** It counts against the limit. */
  readonly taken: boolean;
  readonly sandbox: Sandbox;
  /** Waiting: since when. */
  readonly requestedAt: number;
  /** Waiting: its condition says so. */
  readonly explained: boolean;
  /** Running: since when. */
  readonly activeSince: number;
  /** Running: since when its agent has done nothing; Infinity while it works, or waits for a confirmation. */
  readonly idleSince: number;
  /** Running: its agent waits for a confirmation by a person. */
  readonly confirming: boolean;
  /** Resumable: since when. */
  readonly pausedSince: number;
  /** Resumable: a run or a start was cut off. */
  readonly unfinished: boolean;
  /** Admitted, and needs it no more. */
  readonly releasable: boolean;
  /** Running: when its template says that it is paused, and why. */
  readonly expiry: Expiry | undefined;
}

export type TimeLimits = Pick<SandboxTemplate['spec'], 'idleTimeout' | 'maxActiveTime'>;

export interface SlotFacts {
  readonly sandbox: Sandbox;
  /** Those that are in it, and those that it was made for. */
  readonly conversations: readonly CachedConversation[];
  /** One that it was made for is not known yet, and may not have started. */
  readonly unknownStart?: boolean;
  readonly limits?: TimeLimits | undefined;
  readonly now: number;
}

const time = (timestamp: string | undefined, otherwise: number): number => {
  const ms = timestamp === undefined ? Number.NaN : Date.parse(timestamp);
  return Number.isNaN(ms) ? otherwise : ms;
};

/** Somebody has asked for it since it was paused: with the annotation, or by turning `spec.replicas` off and on again. */
function isRequested({ metadata, status }: Sandbox): boolean {
  const admitted = findCondition(status?.conditions, SandboxCondition.admitted);
  return resumeRequestOf({ metadata }) !== status?.resumeRequestSeen || metadata.generation > (admitted?.observedGeneration ?? 0);
}

function stateOf({
  sandbox,
  conversations,
  unknownStart = false,
}: Pick<SlotFacts, 'sandbox' | 'conversations' | 'unknownStart'>): SlotState {
  const { metadata, spec, status } = sandbox;
  const admitted = findCondition(status?.conditions, SandboxCondition.admitted);
  const taken = slotTaken(sandbox);
  const wanted = metadata.deletionTimestamp === undefined && spec.replicas === 1 && !isTrue(status?.conditions, SandboxCondition.failed);
  if (!wanted) return taken ? 'freeing' : 'none';
  if (admitted?.status === 'True') {
    const settled =
      isTrue(status?.conditions, SandboxCondition.ready) &&
      status?.activeSince !== undefined &&
      !unknownStart &&
      conversations.every((conversation) => isStartOver(startStatusOf(conversation)));
    return settled ? 'running' : 'starting';
  }
  if (taken) return 'freeing';
  if (admitted === undefined || !isPausingReason(admitted.reason) || isRequested(sandbox)) return 'waiting';
  // A message may reach an agent in the moment in which it is paused for its idleness, before anybody here has heard of it.
  const comesBack = admitted.reason === SandboxReason.quota || (admitted.reason === SandboxReason.idle && conversations.some(isWorking));
  return comesBack ? 'resumable' : 'resting';
}

const usingStates: ReadonlySet<SlotState> = new Set(['waiting', 'starting', 'running']);
/** It has a slot, or asks for one, and nobody has asked for it back. */
export const usesSlot = (sandbox: Sandbox): boolean => usingStates.has(stateOf({ sandbox, conversations: [] }));

function requestTime({ metadata, status }: Sandbox, now: number): number {
  const admitted = findCondition(status?.conditions, SandboxCondition.admitted);
  if (admitted === undefined) return time(metadata.creationTimestamp, now);
  if (admitted.reason === SandboxReason.waitingForQuota) return time(status?.waitingSince, now);
  return Math.min(now, time(metadata.annotations?.[resumeRequestedAnnotation], now));
}

function expiryOf(slot: { activeSince: number; idleSince: number }, limits: TimeLimits | undefined): Expiry | undefined {
  const { idleTimeout, maxActiveTime } = limits ?? {};
  const idle =
    idleTimeout === undefined ? [] : [{ at: slot.idleSince + durationMs(idleTimeout), reason: SandboxReason.idle, limit: idleTimeout }];
  const age =
    maxActiveTime === undefined
      ? []
      : [{ at: slot.activeSince + durationMs(maxActiveTime), reason: SandboxReason.maxActiveTime, limit: maxActiveTime }];
  const [first] = [...idle, ...age].sort((one, other) => one.at - other.at);
  return first?.at === Infinity ? undefined : first;
}

/** Something has been sent to its agent that it has not been told. One in `error` may never be. */
const hasMail = (conversation: CachedConversation): boolean =>
  untoldMessages(conversation).length > 0 && startStatusOf(conversation) === 'READY' && conversation.status?.executionStatus !== 'error';

/** Its agent works, or will go on by itself with what was cut off or sent to it. */
const isWorking = (conversation: CachedConversation): boolean =>
  conversation.status?.executionStatus === 'running' || isToGoOn(conversation) || hasMail(conversation);

const isToGoOn = ({ status }: CachedConversation): boolean =>
  status?.executionStatus === 'paused' && status.interruption !== undefined && status.interruption.reason !== SandboxReason.user;

/** Its agent has not been asked since its container has started: it may have work to do of which nobody here knows. */
function isUnasked(conversation: CachedConversation, sandbox: Sandbox): boolean {
  const { executionStatus, agentRun = 0 } = conversation.status ?? {};
  if (startStatusOf(conversation) !== 'READY' || executionStatus === 'error') return false;
  return executionStatus === undefined || agentRun < (sandbox.status?.agentRuns ?? 0);
}

const isUnfinished = (conversation: CachedConversation): boolean => {
  const { status } = conversation;
  return (
    !isStartOver(startStatusOf(conversation)) ||
    status?.executionStatus === 'running' ||
    hasMail(conversation) ||
    (status?.interruption !== undefined && status.interruption.reason !== SandboxReason.user)
  );
};

/** What a sandbox is to its quotas. Pure. */
export function classify(facts: SlotFacts): Slot {
  const { sandbox, conversations, limits, now } = facts;
  const { metadata, spec, status } = sandbox;
  const admitted = findCondition(status?.conditions, SandboxCondition.admitted);
  const state = stateOf(facts);
  const activeSince = time(status?.activeSince, now);
  const active = conversations.flatMap(({ status: { start, lastActivityTime } = {} }) => [
    time(lastActivityTime, 0),
    time(start?.transitions.at(-1)?.time, 0),
  ]);
  const works = conversations.some((conversation) => isWorking(conversation) || isUnasked(conversation, sandbox));
  const confirming = conversations.some((conversation) => conversation.status?.executionStatus === 'waiting_for_confirmation');
  // A person's answer is waited for, for as long as the sandbox may run.
  const idleSince = works || confirming ? Infinity : Math.max(activeSince, ...active);
  return {
    uid: metadata.uid,
    name: metadata.name,
    owner: spec.owner,
    state,
    taken: slotTaken(sandbox),
    sandbox,
    requestedAt: state === 'waiting' ? requestTime(sandbox, now) : 0,
    explained: admitted?.reason === SandboxReason.waitingForQuota && status?.waitingSince !== undefined,
    activeSince,
    idleSince,
    confirming,
    pausedSince: time(admitted?.lastTransitionTime, now),
    unfinished: (status?.interrupted?.length ?? 0) > 0 || conversations.some(isUnfinished),
    releasable: state === 'freeing' && admitted?.status === 'True' && status?.replicas !== 1 && metadata.deletionTimestamp === undefined,
    expiry: state === 'running' ? expiryOf({ activeSince, idleSince }, limits) : undefined,
  };
}
