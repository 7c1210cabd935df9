import { z } from 'zod';
import { findCondition, isTrue, setConditions } from './conditions.ts';
import type { SandboxStatus } from './conversation-status.ts';
import { uuidOf } from './ids.ts';
import {
  column,
  resourceOf,
  scaleOfReplicas,
  wideColumn,
  type CustomObject,
  type CustomResourceDefinition,
} from './group.ts';
import { pausedCondition, pausedType } from './paused-condition.ts';
import { beginningOf } from './plain-text.ts';
import {
  count,
  described,
  immutable,
  noneOrOwnerName,
  objectName,
  optional,
  validations,
} from './schema.ts';
import { sandboxStatusSchema } from './sandbox-status.ts';

export const sandboxSpecSchema = z
  .object({
    owner: described(
      noneOrOwnerName().default(''),
      'Owner of the sandbox. Other owners do not see the sandbox over REST. Empty: the sandbox is a spare of a SandboxPool, until a start claims it.',
    ),
    poolName: optional(
      objectName(),
      'Name of the SandboxPool that created the sandbox. Absent: no pool did.',
    ),
    templateName: described(
      objectName().default('default'),
      'Name of the SandboxTemplate from which the operator creates the pod.',
    ),
    replicas: described(
      count().max(1).default(1),
      'Replicas that the owner wants: 0 pauses the sandbox, 1 runs it. Quotas never change this field.',
    ),
  })
  .meta(
    validations(
      {
        rule: "self.owner != '' || has(self.poolName)",
        message: 'owner is required, except for a spare of a pool',
        fieldPath: '.owner',
      },
      {
        rule: "oldSelf.owner == '' || self.owner == oldSelf.owner",
        message: 'owner is immutable',
        fieldPath: '.owner',
      },
      ...immutable({ required: ['templateName'], optional: ['poolName'] }),
    ),
  );

export type SandboxSpec = z.output<typeof sandboxSpecSchema>;
export type SandboxState = z.output<typeof sandboxStatusSchema>;
export type Sandbox = CustomObject<SandboxSpec, SandboxState>;

export const SandboxCondition = {
  /** The quota lets it run. Written by the admission controller alone. */
  admitted: 'Admitted',
  /** The agent has answered and has its keys. */
  agentReady: 'AgentReady',
  /** The sandbox is usable: all conditions above are true and the pod exists. */
  ready: 'Ready',
  /**
   * The sandbox can't come up, and no retry will help. Written by the sandbox controller alone.
   * Final for a sandbox that has never run; for one that has, the controller takes it back once a
   * person asks for the sandbox (see `isResumedAfterFailure`).
   */
  failed: 'Failed',
  /**
   * The owner, a quota or a time limit of the template keeps the sandbox paused. Written with the
   * phase.
   */
  paused: pausedType,
  /** The operator is going to delete the sandbox. Present from the announcement on. */
  expiring: 'Expiring',
} as const;

/** Reasons of the conditions and, in `sandbox_status_reason`, the reasons that REST clients see. */
export const SandboxReason = {
  admitted: 'Admitted',
  waitingForQuota: 'WaitingForQuota',
  /**
   * Resumed without a message or a run: it takes free room or an idle sandbox's place, and never
   * the place of an agent that works.
   */
  waitingForIdleSandbox: 'WaitingForIdleSandbox',
  quotaExceeded: 'QuotaExceeded',
  user: 'User',
  quota: 'Quota',
  idle: 'Idle',
  maxActiveTime: 'MaxActiveTime',
  waitingForAdmission: 'WaitingForAdmission',
  waitingForVolume: 'WaitingForVolume',
  waitingForPod: 'WaitingForPod',
  waitingForAgent: 'WaitingForAgent',
  /** A spare of a pool whose agent has booted, and waits for the keys of a start. */
  spare: 'Spare',
  podLost: 'PodLost',
  agentSilent: 'AgentSilent',
  running: 'Running',
  deleting: 'Deleting',
} as const;

/**
 * Reasons of Admitted=False that take the sandbox from its owner for a while, rather than make it
 * wait.
 */
const pausingReasons: ReadonlySet<string> = new Set([
  SandboxReason.quota,
  SandboxReason.idle,
  SandboxReason.maxActiveTime,
  SandboxReason.quotaExceeded,
]);
export const isPausingReason = (reason: string): boolean => pausingReasons.has(reason);

/**
 * Whether the sandbox was paused and resumed since its controller last observed it. Only `replicas`
 * of the spec can change, so a second generation reverts the first. The controller still interrupts
 * the runs of before that pause.
 */
export const pausedUnseen = ({ metadata, spec, status }: Sandbox): boolean =>
  spec.replicas === 1 &&
  status?.observedGeneration !== undefined &&
  metadata.generation - status.observedGeneration >= 2;

/** Whether the sandbox is a spare of a pool that no start has claimed. */
export const isSpare = ({ spec }: Pick<Sandbox, 'spec'>): boolean => spec.owner === '';

/** Whether the sandbox was created for a conversation, or claimed by one. */
export const isMadeForConversation = ({ metadata }: Pick<Sandbox, 'metadata'>): boolean =>
  metadata.ownerReferences?.some(({ kind }) => kind === 'Conversation') === true;

/** Whether a start may claim the spare: its agent has booted, and nothing takes its pod away. */
export const isReadySpare = (sandbox: Sandbox): boolean =>
  isSpare(sandbox) &&
  shouldRun(sandbox) &&
  !hasRun(sandbox) &&
  findCondition(sandbox.status?.conditions, SandboxCondition.ready)?.reason === SandboxReason.spare;

/** Whether an agent of the sandbox has ever had its keys: then its volume may hold work. */
export const hasRun = ({ status }: Pick<Sandbox, 'status'>): boolean =>
  status?.lastContainerID !== undefined;

/** Value of the annotation, truncated to the length that the status stores. */
export function resumeRequestOf({ metadata }: Pick<Sandbox, 'metadata'>): string | undefined {
  const request = metadata.annotations?.[resumeRequestedAnnotation];
  return request === undefined ? undefined : beginningOf(request, 64);
}

/**
 * Maximum difference between the clocks of a gateway and an operator. An older request precedes the
 * failure.
 */
const clocksDifferMs = 3_600_000;

/**
 * Whether a person has asked for a failed sandbox since it failed: with the annotation, or by
 * turning `spec.replicas` off and on again. The sandbox must have run: a failed start never
 * resumes. One version of the sandbox has all of this, so that every reader of that version agrees,
 * with any lag of its cache.
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
  // Operators before this rule stored no request with a failure.
  return Date.parse(request) > Date.parse(failed.lastTransitionTime) - clocksDifferMs;
}

/**
 * Whether the operator is interrupting the runs of a pause, or has yet to, even when the sandbox
 * was resumed since.
 */
export const hasStopToFinish = (sandbox: Sandbox): boolean =>
  sandbox.status?.pauseTime !== undefined || pausedUnseen(sandbox);

export interface SandboxView {
  readonly phase: SandboxStatus;
  readonly reason: string;
  readonly message: string;
}

/**
 * Phase, reason and message of a sandbox: a projection of its spec and its conditions. A pause
 * shows as soon as the API server has stored it, before a controller has acted on it.
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
 * The status with the phase, its reason and the condition Paused, which follow from its other
 * fields. A sandbox of an earlier version gets the condition with the next change of its phase, so
 * that an upgrade does not write every stored sandbox at once.
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

/** Whether the sandbox should have a pod. */
export const shouldRun = (sandbox: Sandbox): boolean =>
  sandbox.metadata.deletionTimestamp === undefined &&
  sandbox.spec.replicas === 1 &&
  isTrue(sandbox.status?.conditions, SandboxCondition.admitted) &&
  !isTrue(sandbox.status?.conditions, SandboxCondition.failed);

/**
 * Whether the sandbox counts against a quota: from its admission until its pod is gone. True
 * whenever a pod exists or may be created.
 */
export const slotTaken = ({ status }: Pick<Sandbox, 'status'>): boolean =>
  status?.replicas === 1 || isTrue(status?.conditions, SandboxCondition.admitted);

export const sandboxDefinition: CustomResourceDefinition = {
  kind: 'Sandbox',
  plural: 'sandboxes',
  shortNames: ['sbx'],
  description: 'An execution environment: a pod with an agent and a volume that outlives it.',
  spec: sandboxSpecSchema,
  status: sandboxStatusSchema,
  printerColumns: [
    column('Phase', '.status.phase', 'STARTING, RUNNING, PAUSED or ERROR.'),
    column('Reason', '.status.reason', 'Reason of the phase.'),
    column('Template', '.spec.templateName', 'SandboxTemplate of the sandbox.'),
    column('Owner', '.spec.owner', 'Owner of the sandbox.'),
    wideColumn('Pod-IP', '.status.podIP', 'Address of the pod.'),
    wideColumn('Message', '.status.message', 'Explanation of the phase.'),
  ],
  selectableFields: ['.spec.owner', '.status.phase'],
  scale: scaleOfReplicas,
};

export const sandboxes = resourceOf<Sandbox>(sandboxDefinition);

/**
 * Time of a user's last request to run the sandbox, RFC 3339. A sandbox that a quota, its idleness
 * or its age has paused keeps `spec.replicas: 1`; a value that differs from the one at the time of
 * the pause resumes it, as far as the quota allows.
 */
export const resumeRequestedAnnotation = 'conversation-operator.dev/resume-requested-at';

/**
 * Generation of the sandbox for which a user asked that the run continue which their pause
 * interrupted. Every later pause makes another generation, so that the request ends with it.
 */
export const runRequestedAnnotation = 'conversation-operator.dev/run-requested-in-generation';
export const isRunRequested = ({ metadata }: Pick<Sandbox, 'metadata'>): boolean =>
  metadata.annotations?.[runRequestedAnnotation] === String(metadata.generation);

/**
 * Number of rotations of a sandbox's session keys, a decimal integer; absent: 0. An annotation,
 * because a change of the spec makes another generation of the sandbox, which is how a pause is
 * known.
 */
export const sessionKeyGenerationAnnotation = 'conversation-operator.dev/session-key-generation';
export const maxSessionKeyGeneration = 999_999_999_999_999;
const generationShape = /^(?:0|[1-9]\d{0,14})$/;

/**
 * Undefined when the annotation is no such number: then no session key is valid for the sandbox.
 */
export function sessionKeyGenerationOf({
  metadata,
}: Pick<Sandbox, 'metadata'>): number | undefined {
  const text = metadata.annotations?.[sessionKeyGenerationAnnotation] ?? '0';
  return generationShape.test(text) ? Number(text) : undefined;
}

/** Label of the spares of a pool and of their pods. */
export const poolLabel = 'conversation-operator.dev/pool';
/** Value of the label: the name of the pool; for a name over 63 characters its beginning and hash. */
export const poolLabelValue = (pool: string): string =>
  pool.length <= 63 ? pool : `${pool.slice(0, 30)}-${uuidOf(`pool/${pool}`)}`;
/** Annotation of a spare: uid and generation of the template from which it was created. */
export const templateVersionAnnotation = 'conversation-operator.dev/template-version';
/**
 * Annotation of a sandbox's pod with its owner, for a pod that outlives its sandbox. Empty for the
 * pod of a spare.
 */
export const ownerAnnotation = 'conversation-operator.dev/owner';

/** Labels that every pod and claim of a sandbox carries. */
export const managedBy = { 'app.kubernetes.io/managed-by': 'conversation-operator' } as const;
export const managedBySelector = 'app.kubernetes.io/managed-by=conversation-operator';
export const sandboxLabel = 'conversation-operator.dev/sandbox';
export const sandboxLabels = (sandboxName: string): Record<string, string> => ({
  ...managedBy,
  [sandboxLabel]: sandboxName,
});
