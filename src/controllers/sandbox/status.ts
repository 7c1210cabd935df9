import type { AgentIntroduction } from '../../agent/agent.ts';
import { conditionUpdate, findCondition, setConditions } from '../../resources/conditions.ts';
import {
  SandboxCondition,
  SandboxReason,
  hasRun,
  resumeRequestOf,
  type Sandbox,
  type SandboxState,
} from '../../resources/sandbox.ts';
import { hasStopToFinish, pausedUnseen, withView } from '../../status/sandbox-phase.ts';
import { isWaitingCode } from './failure.ts';
import { isDeepStrictEqual } from 'node:util';
import { agentKindOf, agentNameOf } from '../../agent/kinds.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';

/**
 * The parts of a sandbox's status that its controller decides. `sandboxStatus` derives the phase,
 * the reason and the conditions from them.
 */
export interface SandboxProgress {
  readonly ready: boolean;
  readonly reason: string;
  readonly message: string;
  /** The pod; absent if the sandbox has none. */
  readonly pod?:
    { readonly name: string; readonly uid: string; readonly ip: string | undefined } | undefined;
  readonly agentPort?: number | undefined;
  /** The agent's report about itself; absent if the agent has sent no new report. */
  readonly introduction?: AgentIntroduction | undefined;
  /** Id of the running container whose agent has its keys. */
  readonly containerID?: string | undefined;
  readonly failed?: { readonly code: string; readonly message: string } | undefined;
  /** Whether a person has requested the failed sandbox again. This removes the condition Failed. */
  readonly recovered?: boolean;
  readonly wanted: boolean;
  /** Ids of interrupted conversations; absent if the stored ids stay. */
  readonly interrupted?: readonly string[];
  /** Whether the cluster has just removed the agent's pod. */
  readonly isDisrupted?: boolean;
  /** Whether the sandbox has no pod and can get none, so that its slot is free. */
  readonly released?: boolean;
}

/**
 * The new status of a sandbox. Keeps the condition Admitted and the fields of other controllers.
 */
export function sandboxStatus(
  sandbox: Sandbox,
  progress: SandboxProgress,
  now: string,
): SandboxState {
  const old = sandbox.status ?? {};
  const { generation } = sandbox.metadata;
  const { ready, reason, message, pod, failed, wanted } = progress;
  const connected = progress.containerID !== undefined;
  const kept =
    progress.recovered === true
      ? old.conditions?.filter(({ type }) => type !== SandboxCondition.failed)
      : old.conditions;
  const updates = [
    connected
      ? conditionUpdate(SandboxCondition.agentReady, true, 'Connected', 'The agent has answered.')
      : conditionUpdate(SandboxCondition.agentReady, false, reason, message),
    conditionUpdate(SandboxCondition.ready, ready, reason, message),
    ...(failed === undefined
      ? []
      : [conditionUpdate(SandboxCondition.failed, true, failed.code, failed.message)]),
  ];
  // A resume request that is older than the failure does not remove the failure.
  const observedResumeRequest =
    failed === undefined ? old.observedResumeRequest : resumeRequestOf(sandbox);
  // From now on a run ends because of this pause, whichever process deletes the pod.
  const stops = !wanted && old.pauseTime === undefined;
  // An agent that never had keys had no run that this pause could interrupt.
  const lives = hasRun(sandbox);
  const lastInterruption =
    stops && lives
      ? {
          reason: pausedUnseen(sandbox) ? SandboxReason.user : reason,
          agentEpoch: old.agentEpoch ?? 0,
        }
      : old.lastInterruption;
  // The ids stay until an agent that has run again is stopped, so that a late reconcile of a
  // conversation still finds its interrupted run.
  const interruptsAnew = stops && old.lastInterruption?.agentEpoch !== (old.agentEpoch ?? 0);
  const interrupted = interruptsAnew
    ? []
    : (progress.interrupted ?? old.interruptedConversationIDs ?? []);
  const resumed = wanted && hasStopToFinish(sandbox);
  // A pause of a sandbox that waits for a slot sets a new `pauseTime`. A stop of an agent keeps it.
  const pausedAgain = sandbox.spec.replicas === 0 && old.phase === 'STARTING' && old.replicas !== 1;
  // A new pod does not reset the age of its sandbox. A pause does, even one that no reconcile saw.
  const activeSince = resumed ? undefined : old.activeSinceTime;
  const ownerStops = lives && (sandbox.spec.replicas === 0 || pausedUnseen(sandbox));
  const lastUserPauseEpoch = ownerStops ? (old.agentEpoch ?? 0) : old.lastUserPauseEpoch;
  const lastDisruptionEpoch =
    progress.isDisrupted === true ? (old.agentEpoch ?? 0) : old.lastDisruptionEpoch;
  const { title: agentTitle } = progress.introduction ?? { title: old.agentTitle };
  const lastContainerID = progress.containerID ?? old.lastContainerID;
  const another = lastContainerID !== old.lastContainerID;
  const agentEpoch = another || (connected && resumed) ? (old.agentEpoch ?? 0) + 1 : old.agentEpoch;
  // A warm sandbox may wait for a start without a time limit.
  const isWarmSandboxReady = reason === SandboxReason.warmSandbox;
  const starting =
    wanted && !ready && !isWarmSandboxReady && !isWaitingCode(reason) && failed === undefined;
  // After a first run, `startingSinceTime` counts only the time with the current reason.
  const sameReason =
    !lives || findCondition(old.conditions, SandboxCondition.ready)?.reason === reason;
  const status: SandboxState = {
    observedGeneration: generation,
    ...(old.masterKeyId === undefined ? {} : { masterKeyId: old.masterKeyId }),
    ...(old.agentKind === undefined ? {} : { agentKind: old.agentKind }),
    ...(old.agentName === undefined ? {} : { agentName: old.agentName }),
    ...(agentTitle === undefined ? {} : { agentTitle }),
    // Only `reservedStatus` sets 1. The observed pod does not matter, because a cache may lag.
    replicas: progress.released === true ? 0 : (old.replicas ?? 0),
    selector: `conversation-operator.dev/sandbox=${sandbox.metadata.name}`,
    ...(pod === undefined
      ? {}
      : { podName: pod.name, podUID: pod.uid, ...(pod.ip === undefined ? {} : { podIP: pod.ip }) }),
    ...(connected ? { containerID: progress.containerID } : {}),
    ...(progress.agentPort === undefined ? {} : { agentPort: progress.agentPort }),
    ...(interrupted.length === 0 ? {} : { interruptedConversationIDs: [...interrupted] }),
    ...(lastContainerID === undefined ? {} : { lastContainerID }),
    ...(agentEpoch === undefined ? {} : { agentEpoch }),
    ...(lastInterruption === undefined ? {} : { lastInterruption }),
    ...(lastUserPauseEpoch === undefined ? {} : { lastUserPauseEpoch }),
    ...(lastDisruptionEpoch === undefined ? {} : { lastDisruptionEpoch }),
    ...(starting
      ? { startingSinceTime: (sameReason ? old.startingSinceTime : undefined) ?? now }
      : {}),
    ...(ready ? { activeSinceTime: activeSince ?? now } : {}),
    ...(!ready && wanted && activeSince !== undefined ? { activeSinceTime: activeSince } : {}),
    ...(wanted ? {} : { pauseTime: (pausedAgain ? undefined : old.pauseTime) ?? now }),
    ...(old.waitingSinceTime === undefined ? {} : { waitingSinceTime: old.waitingSinceTime }),
    ...(observedResumeRequest === undefined ? {} : { observedResumeRequest }),
    ...(old.automaticResumes === undefined ? {} : { automaticResumes: old.automaticResumes }),
    conditions: setConditions(kept, updates, generation, now),
  };
  return withView(sandbox, status, now);
}

export const runningProgress = {
  ready: true,
  reason: SandboxReason.running,
  message: 'The agent answers.',
  wanted: true,
} as const;

export const unready = {
  unanswered: {
    reason: SandboxReason.waitingForAgent,
    message: 'Waiting for its agent to answer.',
  },
  warmSandbox: {
    reason: SandboxReason.warmSandbox,
    message: 'The agent has booted. A start may claim the sandbox.',
  },
  stopping: {
    reason: SandboxReason.waitingForAgent,
    message: 'Waiting for the agent to stop the runs that the pause interrupts.',
  },
  recovered: {
    reason: SandboxReason.waitingForAdmission,
    message: 'Resumed after a failure. Waiting to be admitted.',
  },
  /** The agent has answered before, and does not answer now. */
  silent: {
    reason: SandboxReason.agentSilent,
    message:
      'The agent runs and does not answer. The operator asks again until the agent answers, or its container is replaced.',
  },
} as const;

/** Reasons of an ordinary start, each of which usually lasts a moment. */
const passingReasons: ReadonlySet<string> = new Set([
  SandboxReason.waitingForAdmission,
  SandboxReason.waitingForVolume,
  SandboxReason.waitingForPod,
  SandboxReason.waitingForAgent,
]);

const isPassingReady = ({ conditions }: SandboxState): boolean => {
  const ready = findCondition(conditions, SandboxCondition.ready);
  return ready === undefined || (ready.status !== 'True' && passingReasons.has(ready.reason));
};

/** Fields that a later step of the same start writes again, or that derive from these fields. */
const passingFields: ReadonlySet<string> = new Set<keyof SandboxState>([
  'phase',
  'reason',
  'message',
  'podName',
  'podUID',
  'podIP',
  'agentPort',
  'startingSinceTime',
  'observedGeneration',
  'selector',
]);

const lastingFieldsOf = ({ conditions: _conditions, ...status }: SandboxState): object => ({
  replicas: 0,
  ...Object.fromEntries(Object.entries(status).filter(([field]) => !passingFields.has(field))),
});

const lastingConditionsOf = ({ conditions = [] }: SandboxState): readonly object[] =>
  conditions
    .filter(({ type }) => type !== SandboxCondition.ready && type !== SandboxCondition.agentReady)
    .map(({ type, status, reason }) => ({ type, status, reason }));

/**
 * Whether a status only shows a step of an ordinary start, so that the controller stores it only if
 * the step lasts. This includes the first status of a new sandbox, even if the status records that
 * no pod may exist before the admission. The caller stores a status on which the next step depends.
 */
export const isPassing = ({ status: before = {} }: Sandbox, after: SandboxState): boolean =>
  after.phase === 'STARTING' &&
  (before.phase ?? 'STARTING') === 'STARTING' &&
  isPassingReady(before) &&
  isPassingReady(after) &&
  (before.conditions === undefined ||
    (isDeepStrictEqual(lastingFieldsOf(before), lastingFieldsOf(after)) &&
      isDeepStrictEqual(lastingConditionsOf(before), lastingConditionsOf(after))));

export const isUndecided = ({ status }: Sandbox): boolean =>
  findCondition(status?.conditions, SandboxCondition.admitted) === undefined;

/** The stored time at which a start began: the admission, or else the creation of the sandbox. */
export const progressSince = ({ metadata, status }: Sandbox): string =>
  findCondition(status?.conditions, SandboxCondition.admitted)?.lastTransitionTime ??
  metadata.creationTimestamp;

/** Whether the status reserves a slot and names the master key, so that a pod may be created. */
export const isReserved = ({ status }: Pick<Sandbox, 'status'>): boolean =>
  status?.replicas === 1 && status.masterKeyId !== undefined;

export interface ReservationOptions {
  /** Absent if unknown; then the status names no kind and name of the agent. */
  readonly template: SandboxTemplate | undefined;
  readonly currentKeyId: string;
  readonly now: string;
}

/**
 * The status that permits a pod: the slot is taken until the sandbox controller releases it. The
 * same write chooses the master key, before any key is derived, because a rotation of master keys
 * must not change some of the keys of a sandbox.
 */
export function reservedStatus(
  sandbox: Sandbox,
  { template, currentKeyId, now }: ReservationOptions,
): SandboxState {
  // `pauseTime` is of an earlier pause, because the status has no later pause yet.
  const { pauseTime: _pausedAt, ...status } = sandbox.status ?? {};
  // The start deadline counts from this write, even if no object can be created.
  const { masterKeyId = currentKeyId, startingSinceTime = now } = status;
  // The status keeps kind and name of the agent. The pod uses the protocol of this kind, and the
  // volume has the sessions of this agent, even if the template changes.
  const agentKind = template === undefined ? status.agentKind : agentKindOf(sandbox, template);
  const agentName = template === undefined ? status.agentName : agentNameOf(sandbox, template);
  return {
    ...status,
    masterKeyId,
    startingSinceTime,
    replicas: 1,
    ...(agentKind === undefined ? {} : { agentKind }),
    ...(agentName === undefined ? {} : { agentName }),
  };
}
