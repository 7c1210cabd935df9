import type { CachedPod } from '../../resources/cached-core.ts';
import { isOwnedBy } from '@conversation-operator/kube/object';
import { findCondition, isTrue } from '../../resources/conditions.ts';
import { SandboxCondition, SandboxReason, hasRun, type Sandbox } from '../../resources/sandbox.ts';
import {
  hasStopToFinish,
  isResumedAfterFailure,
  shouldRun,
  viewOfSandbox,
} from '../../status/sandbox-phase.ts';
import { defaultStartDeadline, durationMs } from '../../resources/sandbox-template.ts';
import {
  bindingInMs,
  claimFailure,
  ownershipOf,
  volumeNameTaken,
  volumeNotBound,
} from './claim.ts';
import { agentContainerOfPod } from './pod.ts';
import { isLossCode, podLoss } from './pod-loss.ts';
import { isOnLostNode, nodeBeingAdded, nodeLost, podFailure } from './pod-failure.ts';
import { firstCheckMs, nextCheckMs, unknownGraceMs } from './node-additions.ts';
import {
  FailurePolicy,
  FailureCode,
  initialisedBefore,
  isFinal,
  isCreateErrorCode,
  isFailureCode,
  policyOfCreateError,
  type Failure,
} from './failure.ts';
import type { ObservedSandbox, SandboxStep } from './scope.ts';

export const SandboxFailure = {
  templateNotFound: 'TemplateNotFound',
  startDeadlineExceeded: 'StartDeadlineExceeded',
} as const;

type WaitStep = Extract<SandboxStep, { readonly kind: 'wait' }>;

/**
 * Delay before a missing template is a failure, because a template that is applied together with
 * its first sandbox may arrive a little later.
 */
const templateGraceMs = 5_000;

/** Whether a pod has ended, so that none of its containers starts again. */
export const hasEnded = ({ status }: CachedPod): boolean =>
  status?.phase === 'Failed' || status?.phase === 'Succeeded';

/** The status of the agent's container; undefined until a kubelet reports it. */
export const agentStatusOf = (pod: CachedPod) => {
  const name = agentContainerOfPod(pod)?.name;
  const statuses = pod.status?.containerStatuses ?? [];
  return statuses.find((status) => status.name === name) ?? statuses[0];
};

/** Delay after the termination grace period before the node of a pod counts as dead. */
const unendedMs = 30_000;

/** The shortest of the positive delays; empty if there is none. */
const requeueAtNext = (...inMs: readonly number[]): { readonly requeueAfterMs?: number } => {
  const toCome = inMs.filter((ms) => ms > 0);
  return toCome.length === 0 ? {} : { requeueAfterMs: Math.min(...toCome) };
};

/** Whether the agent was connected in this pod until now, and its container has not crashed. */
function isAgentIn(pod: CachedPod, { status }: Sandbox): boolean {
  const ready = findCondition(status?.conditions, SandboxCondition.ready);
  const container = agentStatusOf(pod)?.containerID ?? status?.lastContainerID;
  return (
    (ready?.status === 'True' || ready?.reason === SandboxReason.agentSilent) &&
    container === status?.lastContainerID
  );
}

const disruption = (
  isDisruption: boolean,
  pod: CachedPod,
  sandbox: Sandbox,
): { readonly isDisrupted?: boolean } =>
  isDisruption && isAgentIn(pod, sandbox) ? { isDisrupted: true } : {};

/**
 * The step for a pod in deletion whose sandbox is meant to run. A new pod has to wait for the
 * deletion, because it has the same name.
 */
function decideEnding(
  { sandbox, now }: ObservedSandbox,
  pod: CachedPod,
  deletionTimestamp: string,
): WaitStep {
  const view = viewOfSandbox(sandbox);
  const { phase, reason: shown } = view;
  const unendedInMs = Date.parse(deletionTimestamp) + unendedMs - now;
  if (unendedInMs <= 0) {
    const { code, message } = nodeLost(
      'The old pod of the sandbox does not end: its node does not answer. The sandbox gets a new pod when the node is back, or removed.',
    );
    return { kind: 'wait', reason: code, message };
  }
  const loss = podLoss(pod);
  // If `podLoss` finds no reason, the operator deleted the pod for an earlier pause, unless the
  // sandbox is RUNNING or its status shows a loss.
  const unexpected =
    isOwnedBy(pod, sandbox) &&
    (loss.code !== SandboxReason.podLost || phase === 'RUNNING' || isLossCode(shown));
  const { code, message } = unexpected
    ? loss
    : (initialisedBefore(view) ?? {
        code: SandboxReason.waitingForPod,
        message: 'Waiting for the old pod to end.',
      });
  return {
    kind: 'wait',
    reason: code,
    message,
    ...requeueAtNext(unendedInMs),
    ...disruption(unexpected && loss.isDisruption, pod, sandbox),
  };
}

/** The most specific failure that the pod, the claim or the status of the sandbox shows. */
function failureOf({
  sandbox,
  claim,
  pod,
  now,
  nodeAddition,
}: ObservedSandbox): Failure | undefined {
  const view = viewOfSandbox(sandbox);
  const { phase, reason, message } = view;
  if (pod === undefined) {
    if (claim !== undefined && ownershipOf(claim, sandbox) === 'foreign')
      return volumeNameTaken(claim.metadata.name);
    // The error of a rejected creation exists only in the status of the sandbox.
    if (phase === 'STARTING' && isCreateErrorCode(reason))
      return { code: reason, message, policy: policyOfCreateError(reason) };
    return initialisedBefore(view);
  }
  const found = podFailure(pod);
  const ofClaim =
    claim === undefined || found?.policy === FailurePolicy.permanent
      ? undefined
      : claimFailure(claim, pod, now);
  if (
    found?.code === FailureCode.volumeNotBound &&
    claim !== undefined &&
    claim.status?.phase !== 'Bound'
  )
    return ofClaim ?? volumeNotBound(claim);
  if (found?.code === FailureCode.unschedulable && nodeAddition === 'announced')
    return nodeBeingAdded;
  return found ?? ofClaim ?? initialisedBefore(view);
}

export const startDeadlineMsOf = ({ template }: ObservedSandbox): number =>
  durationMs(template?.spec.startDeadline ?? defaultStartDeadline);

/**
 * Whether the step depends on an autoscaler's Events about a node for the pod. Only a first start
 * has a deadline, which does not count while a node is being added. A sandbox that has run waits
 * for a node in any case.
 */
export function dependsOnNodeAddition(observed: ObservedSandbox): boolean {
  const { sandbox, pod, startingForMs } = observed;
  return (
    pod !== undefined &&
    pod.metadata.deletionTimestamp === undefined &&
    isOwnedBy(pod, sandbox) &&
    shouldRun(sandbox) &&
    !hasRun(sandbox) &&
    (startingForMs >= Math.min(firstCheckMs, startDeadlineMsOf(observed)) ||
      viewOfSandbox(sandbox).reason === FailureCode.nodeBeingAdded) &&
    failureOf(observed)?.code === FailureCode.unschedulable
  );
}

/** Delay before the Events about a pod are read again; 0 if no step depends on them. */
function nodeCheckMs(
  { sandbox, startingForMs, nodeAddition }: ObservedSandbox,
  failure: Failure | undefined,
): number {
  if (nodeAddition !== undefined) return nextCheckMs[nodeAddition];
  const isAwaited = failure?.code === FailureCode.unschedulable && !hasRun(sandbox);
  return isAwaited ? firstCheckMs - startingForMs : 0;
}

function decideRunning(observed: ObservedSandbox): SandboxStep {
  const { sandbox, template, claim, pod, now, startingForMs, nodeAddition } = observed;
  const deadlineMs = startDeadlineMsOf(observed);
  const overdue = startingForMs >= deadlineMs;
  const lives = hasRun(sandbox);
  // After a first run, a failure is final if it has been the reason for the whole deadline.
  const isFinalNow = ({
    code,
    policy,
  }: {
    readonly code: string;
    readonly policy: FailurePolicy;
  }): boolean =>
    isFinal(policy, {
      hasRun: lives,
      overdue: overdue && (!lives || viewOfSandbox(sandbox).reason === code),
    });
  if (pod?.metadata.deletionTimestamp !== undefined) {
    const ending = decideEnding(observed, pod, pod.metadata.deletionTimestamp);
    if (!overdue || lives) return ending;
    const code = isFailureCode(ending.reason)
      ? ending.reason
      : SandboxFailure.startDeadlineExceeded;
    return { kind: 'fail', code, message: ending.message };
  }
  if (pod !== undefined && !isOwnedBy(pod, sandbox)) {
    const message = 'Waiting for a pod of the same name to go.';
    return overdue && !lives
      ? {
          kind: 'fail',
          code: SandboxFailure.startDeadlineExceeded,
          message:
            'A pod of the same name, which does not belong to the sandbox, did not end in time.',
        }
      : { kind: 'wait', reason: SandboxReason.waitingForPod, message, requeueAfterMs: 2_000 };
  }
  if (pod === undefined && template === undefined) {
    const code = SandboxFailure.templateNotFound;
    if (startingForMs < templateGraceMs)
      return {
        kind: 'wait',
        reason: code,
        message: 'Waiting for its template.',
        requeueAfterMs: 1_000,
      };
    const message = `There is no sandbox template ${sandbox.spec.templateName}.`;
    return isFinalNow({ code, policy: FailurePolicy.template })
      ? { kind: 'fail', code, message }
      : { kind: 'wait', reason: code, message, ...requeueAtNext(deadlineMs - startingForMs) };
  }
  const found = failureOf(observed);
  const isBinding =
    found?.code === FailureCode.volumeNotBound &&
    pod !== undefined &&
    bindingInMs(pod, now) > 0 &&
    !overdue;
  const failure = isBinding ? undefined : found;
  // The Events could not be read, so the autoscaler may be adding a node.
  const isNodeUnknown = nodeAddition === 'unknown' && startingForMs < deadlineMs + unknownGraceMs;
  if (failure !== undefined && isFinalNow(failure) && !isNodeUnknown)
    return { kind: 'fail', code: failure.code, message: failure.message };
  if (overdue && failure === undefined && !lives) {
    const seconds = Math.round(deadlineMs / 1000);
    const code = SandboxFailure.startDeadlineExceeded;
    return {
      kind: 'fail',
      code,
      message: `The sandbox was not ready within ${seconds} s${unreadyBecause(pod)}.`,
    };
  }
  if (pod === undefined && claim !== undefined && ownershipOf(claim, sandbox) !== 'own') {
    const { code, message } =
      failure?.code === FailureCode.volumeNameTaken
        ? failure
        : {
            code: SandboxReason.waitingForVolume,
            message: 'Waiting for the deletion of a volume of the same name.',
          };
    return { kind: 'wait', reason: code, message, ...requeueAtNext(deadlineMs - startingForMs) };
  }
  if (template !== undefined && claim === undefined) return { kind: 'create-claim', template };
  if (pod === undefined && observed.bindsInMs > 0)
    return {
      kind: 'wait',
      reason: SandboxReason.waitingForVolume,
      message: 'Waiting for its volume to be bound.',
      requeueAfterMs: observed.bindsInMs,
    };
  if (template !== undefined && pod === undefined) return { kind: 'create-pod', template };
  if (pod === undefined)
    return {
      kind: 'wait',
      reason: SandboxReason.waitingForPod,
      message: 'Waiting for its pod.',
      requeueAfterMs: 1_000,
    };
  if (hasEnded(pod)) {
    const { code, message, isDisruption } = podLoss(pod);
    const lost = { reason: code, message, ...disruption(isDisruption, pod, sandbox) };
    return observed.replaceInMs > 0
      ? { kind: 'wait', ...lost, requeueAfterMs: observed.replaceInMs }
      : { kind: 'replace-pod', pod, ...lost };
  }
  const agent = agentStatusOf(pod);
  const podIP = pod.status?.podIP;
  if (
    agent?.state?.running === undefined ||
    agent.containerID === undefined ||
    podIP === undefined ||
    isOnLostNode(pod)
  ) {
    const graceMs = bindingInMs(pod, now);
    const waiting = isBinding
      ? { code: SandboxReason.waitingForVolume, message: 'Waiting for its volume to be bound.' }
      : {
          code: SandboxReason.waitingForPod,
          message: `Waiting for its pod to start${graceMs > 0 ? '' : unreadyBecause(pod)}.`,
        };
    const { code, message } = failure ?? waiting;
    return {
      kind: 'wait',
      reason: code,
      message,
      ...requeueAtNext(deadlineMs - startingForMs, graceMs, nodeCheckMs(observed, failure)),
      ...disruption(failure?.code === FailureCode.nodeLost, pod, sandbox),
    };
  }
  const { status } = sandbox;
  // After a resume, the agent is connected again to complete the interruption of its runs.
  const known =
    status?.containerID === agent.containerID &&
    status.podIP === podIP &&
    !hasStopToFinish(sandbox);
  return { kind: known ? 'running' : 'connect-agent', podIP, containerID: agent.containerID };
}

/** The end of a message about a pod none of whose containers reports a failure. */
function unreadyBecause(pod: CachedPod | undefined): string {
  if (
    pod?.status?.conditions?.some(
      ({ type, status }) => type === 'PodReadyToStartContainers' && status === 'False',
    ) !== true
  )
    return '';
  return ': its node could not set up its volumes or its network';
}

/** The step for a sandbox that has no pod and needs none now. */
function decideStopped({ sandbox, claim }: ObservedSandbox): SandboxStep {
  // Until the slot of the sandbox is released, a pod may exist that no cache shows.
  if (
    sandbox.status?.replicas === 1 ||
    !isTrue(sandbox.status?.conditions, SandboxCondition.failed)
  )
    return { kind: 'stopped' };
  if (isResumedAfterFailure(sandbox)) return { kind: 'recover' };
  const isUnused =
    claim !== undefined &&
    isOwnedBy(claim, sandbox) &&
    claim.metadata.deletionTimestamp === undefined;
  return isUnused && !hasRun(sandbox) ? { kind: 'delete-claim', claim } : { kind: 'stopped' };
}

/** Decides the next step for a sandbox. A pure function: the same input gives the same step. */
export function decideSandbox(observed: ObservedSandbox): SandboxStep {
  const { sandbox, pod } = observed;
  if (shouldRun(sandbox)) return decideRunning(observed);
  if (pod === undefined || !isOwnedBy(pod, sandbox)) return decideStopped(observed);
  const { reason, message } = viewOfSandbox(sandbox);
  if (pod.metadata.deletionTimestamp !== undefined) return { kind: 'wait', reason, message };
  const { containerID, lastContainerID } = sandbox.status ?? {};
  // A reconcile whose cache lacked the pod may have removed `containerID` while the agent runs.
  const isConnected =
    containerID !== undefined ||
    (lastContainerID !== undefined && lastContainerID === agentStatusOf(pod)?.containerID);
  const isRunning = pod.status?.phase === 'Running' && isConnected;
  return { kind: 'stop-agent', pod, podIP: isRunning ? pod.status.podIP : undefined };
}
