import type { Container, Pod } from '@conversation-operator/kube/core';

/** Delays of a kubelet between restarts, in milliseconds. */
export interface BackOffLimits {
  readonly initialMs: number;
  readonly maxMs: number;
  /** Duration of a run after which the delay is reset. */
  readonly resetAfterMs: number;
}

export const kubeletBackOff: BackOffLimits = {
  initialMs: 10_000,
  maxMs: 300_000,
  resetAfterMs: 600_000,
};

/** Delay in milliseconds between the end of a run and the next; 0 before the first restart. */
export type BackOff = number;

export const noBackOff: BackOff = 0;

export const raised = (backOff: BackOff, limits: BackOffLimits): BackOff =>
  backOff === noBackOff ? limits.initialMs : Math.min(backOff * 2, limits.maxMs);

export const afterRun = (backOff: BackOff, ranMs: number, limits: BackOffLimits): BackOff =>
  ranMs >= limits.resetAfterMs ? noBackOff : backOff;

/** Formats a duration as the messages of a kubelet do: 10s, 1m20s, 5m0s. */
export function goDuration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (ms < 1000) return `${ms}ms`;
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}

/** End of a container's run. Times are RFC 3339 in whole seconds. */
export interface Terminated {
  readonly containerID: string;
  readonly exitCode: number;
  readonly reason: string;
  readonly message?: string;
  readonly startedAt: string;
  readonly finishedAt: string;
}

export type ContainerState =
  | {
      readonly kind: 'waiting';
      readonly reason: string;
      readonly message?: string;
      readonly retryAtMs?: number;
    }
  | {
      readonly kind: 'running';
      readonly containerID: string;
      readonly startedAt: string;
      readonly started: boolean;
      readonly ready: boolean;
    }
  | { readonly kind: 'terminated'; readonly run: Terminated; readonly finishedAtMs: number };

/** State of a pod's container on this node. Times in milliseconds are of the monotonic clock. */
export interface ContainerRecord {
  readonly name: string;
  readonly state: ContainerState;
  readonly last?: Terminated;
  /** True once the container has run; every later start is a restart. */
  readonly ran: boolean;
  readonly restarts: number;
  readonly backOff: BackOff;
}

export type Records = ReadonlyMap<string, ContainerRecord>;

export const Waiting = {
  podInitializing: 'PodInitializing',
  containerCreating: 'ContainerCreating',
  configError: 'CreateContainerConfigError',
  errImagePull: 'ErrImagePull',
  imagePullBackOff: 'ImagePullBackOff',
  crashLoopBackOff: 'CrashLoopBackOff',
  /** The node was stopped. The next start runs the container again, whatever its restart policy. */
  nodeStopped: 'NodeStopped',
} as const;

/** Exit code after SIGKILL, also reported for runs whose end was not observed. */
export const killedExitCode = 137;

export const restartPolicyOf = (pod: Pod): string => pod.spec?.restartPolicy ?? 'Always';

export const initContainersOf = (pod: Pod): readonly Container[] => pod.spec?.initContainers ?? [];
export const mainContainersOf = (pod: Pod): readonly Container[] => pod.spec?.containers ?? [];
export const containersOf = (pod: Pod): readonly Container[] => [
  ...initContainersOf(pod),
  ...mainContainersOf(pod),
];

export const isTerminalPhase = (phase: string | undefined): boolean =>
  phase === 'Succeeded' || phase === 'Failed';

type ReportedStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];
type ReportedTerminated = NonNullable<NonNullable<ReportedStatus['state']>['terminated']>;

const fromReported = (reported: ReportedTerminated): Terminated => ({
  containerID: reported.containerID ?? '',
  exitCode: reported.exitCode,
  reason: reported.reason ?? 'Error',
  ...(reported.message === undefined ? {} : { message: reported.message }),
  startedAt: reported.startedAt ?? '',
  finishedAt: reported.finishedAt ?? '',
});

function stateFromReported(
  reported: ReportedStatus,
  now: { readonly iso: string; readonly ms: number },
): ContainerState {
  const { state, lastState } = reported;
  if (state?.running !== undefined) {
    const run: Terminated = {
      containerID: reported.containerID ?? '',
      exitCode: killedExitCode,
      reason: 'ContainerStatusUnknown',
      message: 'The node ended while the container ran.',
      startedAt: state.running.startedAt ?? now.iso,
      finishedAt: now.iso,
    };
    return { kind: 'terminated', run, finishedAtMs: now.ms };
  }
  if (state?.terminated !== undefined)
    return { kind: 'terminated', run: fromReported(state.terminated), finishedAtMs: now.ms };
  if (lastState?.terminated !== undefined && state?.waiting?.reason !== Waiting.nodeStopped) {
    return { kind: 'terminated', run: fromReported(lastState.terminated), finishedAtMs: now.ms };
  }
  return { kind: 'waiting', reason: Waiting.containerCreating };
}

/**
 * Returns the records of a pod that an earlier process of this node may have run. None of its
 * containers still runs, so a run reported as running counts as ended. Back-off delays start over.
 */
export function recordsFromStatus(
  pod: Pod,
  now: { readonly iso: string; readonly ms: number },
): Map<string, ContainerRecord> {
  const reported = new Map(
    [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])].map(
      (status) => [status.name, status],
    ),
  );
  const waitingReason =
    initContainersOf(pod).length > 0 ? Waiting.podInitializing : Waiting.containerCreating;
  return new Map(
    containersOf(pod).map(({ name }): [string, ContainerRecord] => {
      const status = reported.get(name);
      const state: ContainerState =
        status === undefined
          ? { kind: 'waiting', reason: waitingReason }
          : stateFromReported(status, now);
      const last = status?.lastState?.terminated;
      return [
        name,
        {
          name,
          state,
          ...(last === undefined ? {} : { last: fromReported(last) }),
          ran: state.kind === 'terminated' || last !== undefined,
          restarts: status?.restartCount ?? 0,
          backOff: noBackOff,
        },
      ];
    }),
  );
}
