import { findCondition, isTrue, setConditions, pausedCondition } from '../resources/conditions.ts';
import type { SandboxStatus } from '../resources/conversation-status.ts';
import {
  SandboxCondition,
  SandboxReason,
  hasRun,
  isWarmSandbox,
  resumeRequestOf,
  type Sandbox,
  type SandboxState,
} from '../resources/sandbox.ts';

/** Reasons of Admitted=False for which a sandbox counts as paused instead of waiting. */
const pausingReasons: ReadonlySet<string> = new Set([
  SandboxReason.quota,
  SandboxReason.idle,
  SandboxReason.maxActiveTime,
  SandboxReason.budgetExhausted,
  SandboxReason.quotaExceeded,
]);
export const isPausingReason = (reason: string): boolean => pausingReasons.has(reason);

/**
 * Whether the sandbox was paused and resumed since its controller last observed it. Only `replicas`
 * can change in the spec, so two new generations are a pause and a resume. The controller must
 * still interrupt the runs from before the pause.
 */
export const pausedUnseen = ({ metadata, spec, status }: Sandbox): boolean =>
  spec.replicas === 1 &&
  status?.observedGeneration !== undefined &&
  metadata.generation - status.observedGeneration >= 2;

/**
 * Maximum difference between the clocks of a gateway and an operator, in milliseconds. A request
 * that is older than the failure by more than this was made before the failure.
 */
const clocksDifferMs = 3_600_000;

/**
 * Whether a person has requested a failed sandbox since its failure, by the annotation or by a
 * change of `spec.replicas` to 0 and back to 1. A sandbox that has never run is not resumed. The
 * result depends on the sandbox alone, so that all readers of the same version agree.
 */
export function isResumedAfterFailure(sandbox: Sandbox): boolean {
  const { metadata, spec, status } = sandbox;
  const failed = findCondition(status?.conditions, SandboxCondition.failed);
  if (
    failed?.status !== 'True' ||
    spec.replicas !== 1 ||
    metadata.deletionTimestamp !== undefined ||
    !hasRun(sandbox)
  )
    return false;
  if (metadata.generation > (failed.observedGeneration ?? metadata.generation)) return true;
  const request = resumeRequestOf(sandbox);
  if (request === undefined || request === status?.observedResumeRequest) return false;
  // The status can lack a request from before the failure. Therefore the times are compared.
  return Date.parse(request) > Date.parse(failed.lastTransitionTime) - clocksDifferMs;
}

/** Whether the operator has yet to interrupt runs because of a pause, even after a resume. */
export const hasStopToFinish = (sandbox: Sandbox): boolean =>
  sandbox.status?.pauseTime !== undefined || pausedUnseen(sandbox);

export interface SandboxView {
  readonly phase: SandboxStatus;
  readonly reason: string;
  readonly message: string;
}

/**
 * Phase, reason and message of a sandbox, which follow from its spec and its conditions. A pause is
 * visible as soon as it is stored, before a controller has acted on it.
 */
export function viewOfSandbox(sandbox: Sandbox | undefined): SandboxView {
  if (sandbox === undefined)
    return { phase: 'MISSING', reason: 'Deleted', message: 'The sandbox does not exist any more.' };
  if (sandbox.metadata.deletionTimestamp !== undefined) {
    return {
      phase: 'MISSING',
      reason: SandboxReason.deleting,
      message: 'The sandbox is being deleted.',
    };
  }
  const conditions = sandbox.status?.conditions;
  const failed = findCondition(conditions, SandboxCondition.failed);
  if (failed?.status === 'True') {
    return isResumedAfterFailure(sandbox)
      ? {
          phase: 'STARTING',
          reason: failed.reason,
          message: `Resumed, and started again soon. The failure before: ${failed.message}`,
        }
      : { phase: 'ERROR', reason: failed.reason, message: failed.message };
  }
  if (sandbox.spec.replicas === 0)
    return { phase: 'PAUSED', reason: SandboxReason.user, message: 'Paused by its owner.' };
  const admitted = findCondition(conditions, SandboxCondition.admitted);
  if (admitted?.status === 'False' && pausingReasons.has(admitted.reason)) {
    return { phase: 'PAUSED', reason: admitted.reason, message: admitted.message };
  }
  if (admitted?.status !== 'True') {
    return {
      phase: 'STARTING',
      reason: admitted?.reason ?? SandboxReason.waitingForAdmission,
      message: admitted?.message ?? 'Waiting to be admitted.',
    };
  }
  const ready = findCondition(conditions, SandboxCondition.ready);
  if (ready?.status === 'True' && pausedUnseen(sandbox))
    return {
      phase: 'STARTING',
      reason: SandboxReason.waitingForAgent,
      message: 'Resuming after a pause.',
    };
  if (ready?.status === 'True')
    return { phase: 'RUNNING', reason: SandboxReason.running, message: ready.message };
  return {
    phase: 'STARTING',
    reason: ready?.reason ?? SandboxReason.waitingForPod,
    message: ready?.message ?? 'Starting.',
  };
}

/**
 * Adds the phase, its reason and the condition Paused to a status. They follow from its other
 * fields. A stored sandbox without the condition gets it with the next change of its phase, so that
 * an upgrade does not write every stored sandbox at once.
 */
export function withView(sandbox: Sandbox, status: SandboxState, now: string): SandboxState {
  const view = viewOfSandbox({ ...sandbox, status });
  const isOfEarlierVersion =
    findCondition(status.conditions, SandboxCondition.paused) === undefined &&
    sandbox.status?.phase === view.phase;
  if (isOfEarlierVersion) return { ...status, ...view };
  const conditions = setConditions(
    status.conditions,
    [pausedCondition(view.phase === 'PAUSED', view.reason)],
    sandbox.metadata.generation,
    now,
  );
  return { ...status, ...view, conditions };
}

/** Whether the sandbox is to have a pod. */
export const shouldRun = (sandbox: Sandbox): boolean =>
  sandbox.metadata.deletionTimestamp === undefined &&
  sandbox.spec.replicas === 1 &&
  isTrue(sandbox.status?.conditions, SandboxCondition.admitted) &&
  !isTrue(sandbox.status?.conditions, SandboxCondition.failed);

/**
 * Whether the sandbox counts against a quota, from its admission until its pod is gone. True
 * whenever a pod exists or may be created.
 */
export const slotTaken = ({ status }: Pick<Sandbox, 'status'>): boolean =>
  status?.replicas === 1 || isTrue(status?.conditions, SandboxCondition.admitted);

/** Whether a start may claim the warm sandbox: its agent has booted, and its pod stays. */
export const isReadyWarmSandbox = (sandbox: Sandbox): boolean =>
  isWarmSandbox(sandbox) &&
  shouldRun(sandbox) &&
  !hasRun(sandbox) &&
  findCondition(sandbox.status?.conditions, SandboxCondition.ready)?.reason ===
    SandboxReason.warmSandbox;
