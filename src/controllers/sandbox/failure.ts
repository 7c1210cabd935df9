import type { SandboxView } from '../../status/sandbox-phase.ts';

/** Stable codes of all failures except those of a conversation's start; see docs/reasons.md. */
export const FailureCode = {
  // Failures of the pod, which a kubelet or the scheduler reports.
  imagePullFailed: 'ImagePullFailed',
  containerConfigError: 'ContainerConfigError',
  containerStartFailed: 'ContainerStartFailed',
  crashLoop: 'CrashLoop',
  outOfMemory: 'OutOfMemory',
  unschedulable: 'Unschedulable',
  schedulingGated: 'SchedulingGated',
  nodeBeingAdded: 'NodeBeingAdded',
  podEvicted: 'PodEvicted',
  nodeLost: 'NodeLost',
  // Failures of the volume.
  volumeNotBound: 'VolumeNotBound',
  volumeLost: 'VolumeLost',
  volumeNameTaken: 'VolumeNameTaken',
  // Errors of the API server on the creation of the pod or the volume.
  resourceQuotaExceeded: 'ResourceQuotaExceeded',
  resourceQuotaTooSmall: 'ResourceQuotaTooSmall',
  resourcesNotSpecified: 'ResourcesNotSpecified',
  limitRangeViolated: 'LimitRangeViolated',
  podSecurityViolated: 'PodSecurityViolated',
  admissionDenied: 'AdmissionDenied',
  admissionUnavailable: 'AdmissionUnavailable',
  permissionDenied: 'PermissionDenied',
  namespaceTerminating: 'NamespaceTerminating',
  referenceNotFound: 'ReferenceNotFound',
  creationForbidden: 'CreationForbidden',
  templateInvalid: 'TemplateInvalid',
  // Failure of the agent of a warm sandbox.
  spareUsed: 'SpareUsed',
  // Failure of an agent that has keys before the operator has sent any.
  agentInitialised: 'AgentInitialised',
} as const;
export type FailureCode = (typeof FailureCode)[keyof typeof FailureCode];

/**
 * When a failure moves a sandbox from STARTING to ERROR. Before that, the status shows the failure,
 * and the operator retries creations.
 */
const Ending = { atOnce: 'at-once', atDeadline: 'at-deadline', never: 'never' } as const;
type Ending = (typeof Ending)[keyof typeof Ending];

/**
 * The policy for a failure, by its cause. In a first start there is no work to lose and a client
 * that waits, so the start fails at its deadline at the latest. A sandbox that has run has files
 * and work: it fails only if a person has to repair the sandbox or its template.
 */
export const FailurePolicy = {
  /** Each retry fails in the same way, and costs as much as the first attempt. */
  permanent: 'permanent',
  /** Only a change of the template helps. */
  template: 'template',
  /** An administrator has to act. A first start fails at once; a sandbox that has run waits. */
  environment: 'environment',
  /** The cause may go away by itself. */
  transient: 'transient',
  /** The cause does not disappear by itself, and its repair takes some minutes. */
  needsRepair: 'needs-repair',
  /** Nothing is wrong: the cluster admits the pod later. No deadline counts the wait. */
  waiting: 'waiting',
} as const;
export type FailurePolicy = (typeof FailurePolicy)[keyof typeof FailurePolicy];

const endings: Readonly<
  Record<FailurePolicy, { readonly firstStart: Ending; readonly afterRun: Ending }>
> = {
  [FailurePolicy.permanent]: { firstStart: Ending.atOnce, afterRun: Ending.atOnce },
  [FailurePolicy.template]: { firstStart: Ending.atOnce, afterRun: Ending.atDeadline },
  [FailurePolicy.environment]: { firstStart: Ending.atOnce, afterRun: Ending.never },
  [FailurePolicy.transient]: { firstStart: Ending.atDeadline, afterRun: Ending.never },
  [FailurePolicy.needsRepair]: { firstStart: Ending.atDeadline, afterRun: Ending.atDeadline },
  [FailurePolicy.waiting]: { firstStart: Ending.never, afterRun: Ending.never },
};

export interface Failure {
  readonly code: FailureCode;
  /** Text for the owner: names from the template, sizes, exit codes; no messages of Kubernetes. */
  readonly message: string;
  readonly policy: FailurePolicy;
}

const codes: ReadonlySet<string> = new Set(Object.values(FailureCode));
/**
 * The failure of an agent that got keys from another process, which can use the agent. After the
 * deletion of the pod, only the status of the sandbox has this failure.
 */
export const agentInitialised: Failure = {
  code: FailureCode.agentInitialised,
  message:
    'The agent had keys that the operator did not give it. The operator replaces the pod of the sandbox.',
  policy: FailurePolicy.needsRepair,
};

/** Whether the reason of a sandbox is a failure, rather than a step of its start. */
export const isFailureCode = (reason: string): reason is FailureCode => codes.has(reason);

/** The failure `agentInitialised` if a STARTING sandbox still has it in its status. */
export const initialisedBefore = ({ phase, reason }: SandboxView): Failure | undefined =>
  phase === 'STARTING' && reason === agentInitialised.code ? agentInitialised : undefined;

/** The failure for which a STARTING sandbox retries. */
export const failureIn = ({
  phase,
  reason,
  message,
}: SandboxView): { readonly code: FailureCode; readonly message: string } | undefined =>
  phase === 'STARTING' && isFailureCode(reason) ? { code: reason, message } : undefined;

const waitingCodes: ReadonlySet<string> = new Set([
  FailureCode.schedulingGated,
  FailureCode.resourceQuotaExceeded,
  FailureCode.nodeBeingAdded,
]);
/**
 * Whether a sandbox with this reason waits until the cluster admits its pod. No deadline counts the
 * time of the wait: `startingSinceTime` is absent, and the deadline begins after the wait.
 */
export const isWaitingCode = (reason: string): boolean => waitingCodes.has(reason);

const createErrorCodes: ReadonlySet<string> = new Set([
  FailureCode.volumeNameTaken,
  FailureCode.resourceQuotaExceeded,
  FailureCode.resourceQuotaTooSmall,
  FailureCode.resourcesNotSpecified,
  FailureCode.limitRangeViolated,
  FailureCode.podSecurityViolated,
  FailureCode.admissionDenied,
  FailureCode.admissionUnavailable,
  FailureCode.permissionDenied,
  FailureCode.namespaceTerminating,
  FailureCode.referenceNotFound,
  FailureCode.creationForbidden,
  FailureCode.templateInvalid,
]);
/** Whether a reason is the rejection of a creation, which only the sandbox's status shows. */
export const isCreateErrorCode = (reason: string): reason is FailureCode =>
  createErrorCodes.has(reason);
export function policyOfCreateError(code: FailureCode): FailurePolicy {
  if (code === FailureCode.templateInvalid) return FailurePolicy.template;
  return isWaitingCode(code) ? FailurePolicy.waiting : FailurePolicy.transient;
}

export function isFinal(
  policy: FailurePolicy,
  { hasRun, overdue }: { readonly hasRun: boolean; readonly overdue: boolean },
): boolean {
  const ending = hasRun ? endings[policy].afterRun : endings[policy].firstStart;
  return ending === Ending.atOnce || (ending === Ending.atDeadline && overdue);
}
