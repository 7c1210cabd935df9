import type { SandboxView } from '../../resources/sandbox.ts';

/** Stable codes of what keeps a sandbox from running, beside those of its start; docs/reasons.md explains each. */
export const TroubleCode = {
  // What a kubelet or the scheduler says of the pod.
  imagePullFailed: 'ImagePullFailed',
  containerConfigError: 'ContainerConfigError',
  containerStartFailed: 'ContainerStartFailed',
  crashLoop: 'CrashLoop',
  outOfMemory: 'OutOfMemory',
  unschedulable: 'Unschedulable',
  podEvicted: 'PodEvicted',
  nodeLost: 'NodeLost',
  // Of its volume.
  volumeNotBound: 'VolumeNotBound',
  volumeLost: 'VolumeLost',
  volumeNameTaken: 'VolumeNameTaken',
  // What the API server answers when the pod or the volume is to be created.
  resourceQuotaExceeded: 'ResourceQuotaExceeded',
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
} as const;
export type TroubleCode = (typeof TroubleCode)[keyof typeof TroubleCode];

/** When trouble that lasts ends the sandbox in ERROR. Until then it is told, and what was refused is tried again. */
export const Patience = {
  /** At once: waiting changes nothing. */
  none: 'none',
  /** At once where nothing is lost by it; one that has run before has files on its volume, and waits until its start deadline. */
  ofFiles: 'of-files',
  /** At the start deadline: the cause may go away. */
  untilDeadline: 'until-deadline',
  /** Never once it has run, because its pod may run still, and it comes back by itself. On its first start, at the deadline. */
  forever: 'forever',
} as const;
export type Patience = (typeof Patience)[keyof typeof Patience];

export interface Trouble {
  readonly code: TroubleCode;
  /** Safe to show to the sandbox's owner: names from the template, sizes and exit codes, no text of the cluster's. */
  readonly message: string;
  readonly patience: Patience;
}

const codes: ReadonlySet<string> = new Set(Object.values(TroubleCode));
/** Whether a reason of a sandbox says that something is wrong, rather than how far it has come. */
export const isTroubleCode = (reason: string): reason is TroubleCode => codes.has(reason);

/** What is wrong with a sandbox that has not given up. */
export const troubleIn = ({ phase, reason, message }: SandboxView): { readonly code: TroubleCode; readonly message: string } | undefined =>
  phase === 'STARTING' && isTroubleCode(reason) ? { code: reason, message } : undefined;

const refusals: ReadonlySet<string> = new Set([
  TroubleCode.volumeNameTaken,
  TroubleCode.resourceQuotaExceeded,
  TroubleCode.resourcesNotSpecified,
  TroubleCode.limitRangeViolated,
  TroubleCode.podSecurityViolated,
  TroubleCode.admissionDenied,
  TroubleCode.admissionUnavailable,
  TroubleCode.permissionDenied,
  TroubleCode.namespaceTerminating,
  TroubleCode.referenceNotFound,
  TroubleCode.creationForbidden,
  TroubleCode.templateInvalid,
]);
/** Whether it is about something that could not be created, which no object tells of afterwards. */
export const isRefusalCode = (reason: string): reason is TroubleCode => refusals.has(reason);

/** Whether the sandbox has to be given up. */
export function isOver(patience: Patience, { hasRun, overdue }: { readonly hasRun: boolean; readonly overdue: boolean }): boolean {
  switch (patience) {
    case Patience.none:
      return true;
    case Patience.ofFiles:
      return overdue || !hasRun;
    case Patience.untilDeadline:
      return overdue;
    case Patience.forever:
      return overdue && !hasRun;
  }
}
