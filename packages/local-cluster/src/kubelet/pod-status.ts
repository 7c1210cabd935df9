import type { Container, Pod } from '@conversation-operator/kube/core';
import {
  initContainersOf,
  isTerminalPhase,
  mainContainersOf,
  restartPolicyOf,
  type ContainerRecord,
  type Records,
  type Terminated,
} from './container-record.ts';
import type { Plan } from './decide.ts';

export type PodStatus = NonNullable<Pod['status']>;
type PodCondition = NonNullable<PodStatus['conditions']>[number];
type ContainerStatus = NonNullable<PodStatus['containerStatuses']>[number];

export interface Observed {
  readonly pod: Pod;
  readonly records: Records;
  readonly waiting: Plan['waiting'];
  /** Absent until the address is reserved. */
  readonly podIP?: string;
  readonly hostIP: string;
  readonly startTime: string;
  /** Status that the node wrote last. */
  readonly previous: PodStatus | undefined;
  /** True while the node stops: the phase of the pod stays unchanged until the next start. */
  readonly suspended: boolean;
  /** Current time in RFC 3339 in whole seconds. */
  readonly now: string;
}

const wireTerminated = ({
  containerID,
  exitCode,
  reason,
  message,
  startedAt,
  finishedAt,
}: Terminated) => ({
  exitCode,
  reason,
  ...(message === undefined ? {} : { message }),
  startedAt,
  finishedAt,
  ...(containerID === '' ? {} : { containerID }),
});

function containerStatus(
  container: Container,
  record: ContainerRecord,
  { waiting, isInit }: { readonly waiting: Plan['waiting']; readonly isInit: boolean },
): ContainerStatus {
  const { state, last } = record;
  const base = {
    name: container.name,
    image: container.image ?? '',
    imageID: '',
    restartCount: record.restarts,
    ready: false,
    started: false,
    lastState: last === undefined ? {} : { terminated: wireTerminated(last) },
  };
  const waitingFor = waiting.get(container.name);
  switch (state.kind) {
    case 'running':
      return {
        ...base,
        imageID: `process://${container.image ?? ''}`,
        containerID: state.containerID,
        ready: state.ready,
        started: state.started,
        state: { running: { startedAt: state.startedAt } },
      };
    case 'waiting':
      return {
        ...base,
        ...(last === undefined || last.containerID === '' ? {} : { containerID: last.containerID }),
        state: {
          waiting: {
            reason: state.reason,
            ...(state.message === undefined ? {} : { message: state.message }),
          },
        },
      };
    case 'terminated': {
      const id = state.run.containerID === '' ? {} : { containerID: state.run.containerID };
      const terminated = wireTerminated(state.run);
      if (waitingFor !== undefined)
        return { ...base, ...id, state: { waiting: waitingFor }, lastState: { terminated } };
      return { ...base, ...id, ready: isInit && state.run.exitCode === 0, state: { terminated } };
    }
  }
}

/** Returns the pod's phase like getPhase in kubelet_pods.go. A terminal phase never changes. */
export function phaseOf({
  pod,
  records,
  previous,
  suspended,
}: Pick<Observed, 'pod' | 'records' | 'previous' | 'suspended'>): string {
  const before = previous?.phase ?? 'Pending';
  if (isTerminalPhase(before) || suspended) return before;
  const deleting = pod.metadata.deletionTimestamp !== undefined;
  const policy = deleting ? 'Never' : restartPolicyOf(pod);
  const initFailed = initContainersOf(pod).some(({ name }) => {
    const state = records.get(name)?.state;
    return state?.kind === 'terminated' && state.run.exitCode !== 0;
  });
  if (policy === 'Never' && initFailed) return 'Failed';
  const mains = mainContainersOf(pod).map(({ name }) => records.get(name));
  if (mains.some((record) => record?.ran !== true)) return 'Pending';
  const ended = mains.flatMap((record) =>
    record?.state.kind === 'terminated' ? [record.state.run.exitCode] : [],
  );
  if (ended.length < mains.length || policy === 'Always') return 'Running';
  if (ended.every((exitCode) => exitCode === 0)) return 'Succeeded';
  return policy === 'OnFailure' ? 'Running' : 'Failed';
}

interface Verdict {
  readonly type: string;
  readonly status: 'True' | 'False';
  readonly reason?: string;
  readonly message?: string;
}

const listed = (containers: readonly Container[]): string =>
  `[${containers.map(({ name }) => name).join(' ')}]`;

function initialization({ pod, records }: Observed, phase: string): Omit<Verdict, 'type'> {
  if (phase === 'Succeeded') return { status: 'True', reason: 'PodCompleted' };
  const incomplete = initContainersOf(pod).filter(({ name }) => {
    const state = records.get(name)?.state;
    return !(state?.kind === 'terminated' && state.run.exitCode === 0);
  });
  if (incomplete.length === 0) return { status: 'True' };
  const message = `containers with incomplete status: ${listed(incomplete)}`;
  return { status: 'False', reason: 'ContainersNotInitialized', message };
}

function readiness({ pod, records }: Observed, phase: string): Omit<Verdict, 'type'> {
  if (phase === 'Succeeded') return { status: 'False', reason: 'PodCompleted' };
  if (phase === 'Failed') return { status: 'False', reason: 'PodFailed' };
  const unready = mainContainersOf(pod).filter(({ name }) => {
    const state = records.get(name)?.state;
    return !(state?.kind === 'running' && state.ready);
  });
  if (unready.length === 0) return { status: 'True' };
  const message = `containers with unready status: ${listed(unready)}`;
  return { status: 'False', reason: 'ContainersNotReady', message };
}

const verdicts = (observed: Observed, phase: string): readonly Verdict[] => [
  { type: 'PodReadyToStartContainers', status: observed.podIP === undefined ? 'False' : 'True' },
  { type: 'Initialized', ...initialization(observed, phase) },
  { type: 'Ready', ...readiness(observed, phase) },
  { type: 'ContainersReady', ...readiness(observed, phase) },
  { type: 'PodScheduled', status: 'True' },
];

/** Keeps other clients' conditions. A `lastTransitionTime` changes only with its `status`. */
function conditionsOf(observed: Observed, phase: string): readonly PodCondition[] {
  const present = observed.pod.status?.conditions ?? [];
  const before = new Map(
    [...present, ...(observed.previous?.conditions ?? [])].map((condition) => [
      condition.type,
      condition,
    ]),
  );
  const own = verdicts(observed, phase).map((verdict): PodCondition => {
    const old = before.get(verdict.type);
    return {
      ...verdict,
      lastTransitionTime:
        old?.status === verdict.status ? (old.lastTransitionTime ?? observed.now) : observed.now,
    };
  });
  return [
    ...own,
    ...present.filter(({ type }) => !own.some((condition) => condition.type === type)),
  ];
}

/** Returns the status as a kubelet reports it. The same observations give the same status. */
export function podStatusOf(observed: Observed): PodStatus {
  const { pod, records, waiting, podIP, hostIP, startTime, previous } = observed;
  const phase = phaseOf(observed);
  const inits = initContainersOf(pod);
  const statuses = (containers: readonly Container[]): readonly ContainerStatus[] =>
    containers.flatMap((container) => {
      const record = records.get(container.name);
      return record === undefined
        ? []
        : [containerStatus(container, record, { waiting, isInit: inits.includes(container) })];
    });
  return {
    phase,
    conditions: [...conditionsOf(observed, phase)],
    hostIP,
    hostIPs: [{ ip: hostIP }],
    ...(podIP === undefined
      ? previous?.podIP === undefined
        ? {}
        : { podIP: previous.podIP, podIPs: [{ ip: previous.podIP }] }
      : { podIP, podIPs: [{ ip: podIP }] }),
    startTime,
    ...(inits.length === 0 ? {} : { initContainerStatuses: [...statuses(inits)] }),
    containerStatuses: [...statuses(mainContainersOf(pod))],
    qosClass: pod.status?.qosClass ?? 'BestEffort',
    ...(previous?.reason === undefined ? {} : { reason: previous.reason }),
    ...(previous?.message === undefined ? {} : { message: previous.message }),
  };
}
