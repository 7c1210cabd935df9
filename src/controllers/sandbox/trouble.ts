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

/** When a sandbox leaves STARTING for ERROR because of trouble. Until then the reason is shown, and refused creations are repeated. */
const Ending = { atOnce: 'at-once', atDeadline: 'at-deadline', never: 'never' } as const;
type Ending = (typeof Ending)[keyof typeof Ending];

/**
 * How trouble is judged. A first start has nothing to lose and a client that waits, so it ends at its deadline at the latest. A
 * sandbox that has run has files and work: only what lasts until a person mends the sandbox or its template ends it.
 */
export const Patience = {
  /** Each further attempt ends the same way and costs as much. */
  none: 'none',
  /** Only another template helps. */
  ofFiles: 'of-files',
  /** A first start need not wait for it; a sandbox that has run waits until the people who run the cluster have mended it. */
  unlessRun: 'unless-run',
  /** The cause may go away by itself. */
  untilDeadline: 'until-deadline',
  /** The cause does not go away by itself, and whoever looks at it needs some minutes. */
  lasting: 'lasting',
} as const;
export type Patience = (typeof Patience)[keyof typeof Patience];

const endings: Readonly<Record<Patience, { readonly firstStart: Ending; readonly afterRun: Ending }>> = {
  [Patience.none]: { firstStart: Ending.atOnce, afterRun: Ending.atOnce },
  [Patience.ofFiles]: { firstStart: Ending.atOnce, afterRun: Ending.atDeadline },
  [Patience.unlessRun]: { firstStart: Ending.atOnce, afterRun: Ending.never },
  [Patience.untilDeadline]: { firstStart: Ending.atDeadline, afterRun: Ending.never },
  [Patience.lasting]: { firstStart: Ending.atDeadline, afterRun: Ending.atDeadline },
};

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
export const patienceOfRefusal = (code: TroubleCode): Patience =>
  code === TroubleCode.templateInvalid ? Patience.ofFiles : Patience.untilDeadline;

/** Whether the sandbox has to be given up. */
export function isOver(patience: Patience, { hasRun, overdue }: { readonly hasRun: boolean; readonly overdue: boolean }): boolean {
  const ending = hasRun ? endings[patience].afterRun : endings[patience].firstStart;
  return ending === Ending.atOnce || (ending === Ending.atDeadline && overdue);
}
