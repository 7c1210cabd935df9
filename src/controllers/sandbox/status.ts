import { conditionUpdate, findCondition, setConditions } from '../../resources/conditions.ts';
import {
  SandboxCondition,
  SandboxReason,
  hasRun,
  hasStopToFinish,
  pausedUnseen,
  resumeRequestOf,
  withView,
  type Sandbox,
  type SandboxState,
} from '../../resources/sandbox.ts';

/** The parts of a sandbox's status that its controller decides; phase, reason and the conditions' bookkeeping follow from them. */
export interface SandboxProgress {
  readonly ready: boolean;
  readonly reason: string;
  readonly message: string;
  /** Absent: no pod. */
  readonly pod?: { readonly name: string; readonly uid: string; readonly ip: string | undefined } | undefined;
  readonly agentPort?: number | undefined;
  /** The run of the agent's container that has been given its keys. */
  readonly containerID?: string | undefined;
  readonly failed?: { readonly code: string; readonly message: string } | undefined;
  /** A person has asked for it since it failed: the condition Failed goes. */
  readonly recovered?: boolean;
  /** Whether it is meant to run. */
  readonly wanted: boolean;
  /** Absent: those that are stored. */
  readonly interrupted?: readonly string[];
  /** Its agent has just been lost with its pod, for reasons of the cluster. */
  readonly isDisrupted?: boolean;
  /** It is sure that it has no pod and gets none: its slot is free from here on. */
  readonly released?: boolean;
}

/** The status that a sandbox should have now. What it does not mention (Admitted) stays. */
export function sandboxStatus(sandbox: Sandbox, progress: SandboxProgress, now: string): SandboxState {
  const old = sandbox.status ?? {};
  const { generation } = sandbox.metadata;
  const { ready, reason, message, pod, failed, wanted } = progress;
  const connected = progress.containerID !== undefined;
  const kept = progress.recovered === true ? old.conditions?.filter(({ type }) => type !== SandboxCondition.failed) : old.conditions;
  const updates = [
    connected
      ? conditionUpdate(SandboxCondition.agentReady, true, 'Connected', 'The agent has answered.')
      : conditionUpdate(SandboxCondition.agentReady, false, reason, message),
    conditionUpdate(SandboxCondition.ready, ready, reason, message),
    ...(failed === undefined ? [] : [conditionUpdate(SandboxCondition.failed, true, failed.code, failed.message)]),
  ];
  // Requests to resume from before the failure do not take it back.
  const observedResumeRequest = failed === undefined ? old.observedResumeRequest : resumeRequestOf(sandbox);
  // Whoever takes the pod away from now on: its runs end because it is not wanted any more.
  const stops = !wanted && old.pauseTime === undefined;
  // A sandbox whose agent has never had its keys has had no run, so a pause before that explains no loss that comes later.
  const lives = hasRun(sandbox);
  const lastInterruption =
    stops && lives
      ? { reason: pausedUnseen(sandbox) ? SandboxReason.user : reason, agentEpoch: old.agentEpoch ?? 0 }
      : old.lastInterruption;
  // Kept until the next stop of an agent that has run since: however late somebody looks, it is known which runs the last one cut.
  const cutsAnew = stops && old.lastInterruption?.agentEpoch !== (old.agentEpoch ?? 0);
  const interrupted = cutsAnew ? [] : (progress.interrupted ?? old.interruptedConversationIDs ?? []);
  const resumed = wanted && hasStopToFinish(sandbox);
  // Its owner takes back a resume that waited for room. What is still being stopped has its bound from when that began.
  const pausedAgain = sandbox.spec.replicas === 0 && old.phase === 'STARTING' && old.replicas !== 1;
  // A pod that is lost and comes back does not make its sandbox younger; a pause does, also one that no controller has seen.
  const activeSince = resumed ? undefined : old.activeSinceTime;
  const ownerStops = lives && (sandbox.spec.replicas === 0 || pausedUnseen(sandbox));
  const lastUserPauseEpoch = ownerStops ? (old.agentEpoch ?? 0) : old.lastUserPauseEpoch;
  const lastDisruptionEpoch = progress.isDisrupted === true ? (old.agentEpoch ?? 0) : old.lastDisruptionEpoch;
  const lastContainerID = progress.containerID ?? old.lastContainerID;
  const another = lastContainerID !== old.lastContainerID;
  const agentEpoch = another || (connected && resumed) ? (old.agentEpoch ?? 0) + 1 : old.agentEpoch;
  const starting = wanted && !ready && failed === undefined;
  // Of a sandbox that has run, only the present reason counts: what keeps it now has not lasted since another one began.
  const sameReason = !lives || findCondition(old.conditions, SandboxCondition.ready)?.reason === reason;
  const status: SandboxState = {
    observedGeneration: generation,
    ...(old.masterKeyId === undefined ? {} : { masterKeyId: old.masterKeyId }),
    ...(old.sessionKeysPerApiKey === undefined ? {} : { sessionKeysPerApiKey: old.sessionKeysPerApiKey }),
    ...(old.agentKind === undefined ? {} : { agentKind: old.agentKind }),
    // Not from what is seen of the pod: a cache may be behind. It is 1 from the reservation on.
    replicas: progress.released === true ? 0 : (old.replicas ?? 0),
    selector: `conversation-operator.dev/sandbox=${sandbox.metadata.name}`,
    ...(pod === undefined ? {} : { podName: pod.name, podUID: pod.uid, ...(pod.ip === undefined ? {} : { podIP: pod.ip }) }),
    ...(connected ? { containerID: progress.containerID } : {}),
    ...(progress.agentPort === undefined ? {} : { agentPort: progress.agentPort }),
    ...(interrupted.length === 0 ? {} : { interruptedConversationIDs: [...interrupted] }),
    ...(lastContainerID === undefined ? {} : { lastContainerID }),
    ...(agentEpoch === undefined ? {} : { agentEpoch }),
    ...(lastInterruption === undefined ? {} : { lastInterruption }),
    ...(lastUserPauseEpoch === undefined ? {} : { lastUserPauseEpoch }),
    ...(lastDisruptionEpoch === undefined ? {} : { lastDisruptionEpoch }),
    ...(starting ? { startingSinceTime: (sameReason ? old.startingSinceTime : undefined) ?? now } : {}),
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

export const runningProgress = { ready: true, reason: SandboxReason.running, message: 'The agent answers.', wanted: true } as const;

export const unready = {
  unanswered: { reason: SandboxReason.waitingForAgent, message: 'Waiting for its agent to answer.' },
  stopping: { reason: SandboxReason.waitingForAgent, message: 'Waiting for its agent to stop what ran when it was paused.' },
  recovered: { reason: SandboxReason.waitingForAdmission, message: 'Resumed after a failure. Waiting to be admitted.' },
  /** It has answered before, and what it does now is not known. */
  silent: {
    reason: SandboxReason.agentSilent,
    message: 'Its agent runs and does not answer. It is asked again until it does, or its container is replaced.',
  },
} as const;
