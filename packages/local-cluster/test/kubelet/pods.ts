import {
  kubeletBackOff,
  noBackOff,
  type BackOff,
  type ContainerRecord,
  type ContainerState,
} from '../../src/kubelet/container-record.ts';
import type { Container, Pod } from '../../../kube/src/core.ts';

type Spec = NonNullable<Pod['spec']>;

export const aContainer = (name: string, more: Partial<Container> = {}): Container => ({
  name,
  image: 'program',
  ...more,
});

export const aPod = (
  spec: Partial<Spec> = {},
  more: { metadata?: Partial<Pod['metadata']>; status?: Pod['status'] } = {},
): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name: 'web',
    namespace: 'default',
    uid: 'uid-1',
    resourceVersion: '1',
    creationTimestamp: '2030-01-01T00:00:00Z',
    ...more.metadata,
  },
  spec: { containers: [aContainer('main')], ...spec },
  ...(more.status === undefined ? {} : { status: more.status }),
});

export const started = '2030-01-01T00:00:00Z';
export const finished = '2030-01-01T00:00:05Z';

export const waiting = (reason = 'ContainerCreating', retryAtMs?: number): ContainerState => ({
  kind: 'waiting',
  reason,
  ...(retryAtMs === undefined ? {} : { retryAtMs }),
});
export const running = ({ ready = true, isStarted = true } = {}): ContainerState => ({
  kind: 'running',
  containerID: 'process://1',
  startedAt: started,
  started: isStarted,
  ready,
});
export const exited = (exitCode: number, finishedAtMs = 0): ContainerState => ({
  kind: 'terminated',
  run: {
    containerID: 'process://1',
    exitCode,
    reason: exitCode === 0 ? 'Completed' : 'Error',
    startedAt: started,
    finishedAt: finished,
  },
  finishedAtMs,
});

export const aRecord = (
  name: string,
  state: ContainerState,
  more: Partial<ContainerRecord> = {},
): ContainerRecord => ({
  name,
  state,
  ran: state.kind !== 'waiting',
  restarts: 0,
  backOff: noBackOff,
  ...more,
});

export const records = (
  ...list: readonly ContainerRecord[]
): ReadonlyMap<string, ContainerRecord> => new Map(list.map((record) => [record.name, record]));

export const waits = (delayMs: number): { readonly backOff: BackOff } => ({ backOff: delayMs });
export const limits = kubeletBackOff;
