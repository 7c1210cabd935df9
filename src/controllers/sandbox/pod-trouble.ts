import type { V1ContainerStatus } from '@kubernetes/client-node';
import type { Pod } from '../../resources/core.ts';
import type { Wire } from '../../resources/object.ts';

/** Stable codes of what keeps a pod from running; docs/reasons.md explains each. */
export const PodTroubleCode = {
  imagePullFailed: 'ImagePullFailed',
  containerConfigError: 'ContainerConfigError',
  containerStartFailed: 'ContainerStartFailed',
  crashLoop: 'CrashLoop',
  outOfMemory: 'OutOfMemory',
  unschedulable: 'Unschedulable',
  volumeNotBound: 'VolumeNotBound',
} as const;

export interface PodTrouble {
  readonly code: (typeof PodTroubleCode)[keyof typeof PodTroubleCode];
  /** Safe to show to the sandbox's owner: names of images and exit codes, no text of the cluster's. */
  readonly message: string;
  /** No more waiting helps. */
  readonly fatal: boolean;
}

type ContainerStatus = Wire<V1ContainerStatus>;

/** So many runs that ended, and a crash is a loop. */
const crashLoopRestarts = 3;

function containerTrouble({ name, image, restartCount, state, lastState }: ContainerStatus): PodTrouble | undefined {
  const waiting = state?.waiting?.reason;
  switch (waiting) {
    case 'ErrImagePull':
      return { code: PodTroubleCode.imagePullFailed, message: `The image ${image} can't be pulled yet.`, fatal: false };
    case 'ImagePullBackOff':
    case 'InvalidImageName':
    case 'ErrImageNeverPull':
      return { code: PodTroubleCode.imagePullFailed, message: `The image ${image} can't be pulled.`, fatal: true };
    case 'CreateContainerConfigError':
      return {
        code: PodTroubleCode.containerConfigError,
        message: `The container ${name} names a Secret, ConfigMap or key that does not exist.`,
        fatal: true,
      };
    case 'CreateContainerError':
    case 'RunContainerError':
      return {
        code: PodTroubleCode.containerStartFailed,
        message: `The container ${name} can't be started.`,
        fatal: restartCount >= crashLoopRestarts,
      };
    default:
  }
  const ended = state?.terminated ?? (waiting === 'CrashLoopBackOff' ? lastState?.terminated : undefined);
  if (ended === undefined || restartCount === 0) return undefined;
  const fatal = restartCount >= crashLoopRestarts;
  return ended.reason === 'OOMKilled'
    ? { code: PodTroubleCode.outOfMemory, message: `The container ${name} ran out of memory ${restartCount} times.`, fatal }
    : {
        code: PodTroubleCode.crashLoop,
        message: `The container ${name} ended ${restartCount} times, the last time with exit code ${ended.exitCode}.`,
        fatal,
      };
}

/** Why a pod does not come up, or undefined when nothing speaks against waiting. */
export function podTrouble(pod: Pod): PodTrouble | undefined {
  const statuses = [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])];
  const troubles = statuses.flatMap((status) => containerTrouble(status) ?? []);
  const worst = troubles.find(({ fatal }) => fatal) ?? troubles[0];
  if (worst !== undefined) return worst;
  const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled');
  if (scheduled?.status === 'False' && scheduled.reason === 'Unschedulable') {
    // The scheduler has one reason for both, and only its words tell them apart.
    return scheduled.message?.includes('PersistentVolumeClaim') === true
      ? { code: PodTroubleCode.volumeNotBound, message: 'Its volume is not bound yet.', fatal: false }
      : { code: PodTroubleCode.unschedulable, message: 'No node has room for the sandbox at the moment.', fatal: false };
  }
  return undefined;
}
