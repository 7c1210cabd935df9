import { cachedMetadata, type Interner } from './cached-metadata.ts';
import type { Container, Pod, PersistentVolumeClaim } from '@conversation-operator/kube/core';
import { presentValues } from './pod-disruption.ts';
import type { CachedMetadata, KubeObject } from '@conversation-operator/kube/object';

type PodSpec = NonNullable<Pod['spec']>;
type PodStatus = NonNullable<Pod['status']>;
type ContainerStatus = NonNullable<PodStatus['containerStatuses']>[number];

/**
 * A pod as caches hold it. The spec, by far the largest part, is reduced to the names and ports of
 * containers and to the gates that delay the pod. The status shows whether the pod runs, and why
 * not. The environment of containers, which may contain secrets, is absent.
 */
export interface CachedPod extends Omit<KubeObject, 'metadata'> {
  readonly metadata: CachedMetadata;
  readonly spec?: Pick<PodSpec, 'readinessGates' | 'schedulingGates'> & {
    readonly containers: readonly CachedContainer[];
    readonly initContainers?: readonly Pick<Container, 'name' | 'restartPolicy'>[];
  };
  readonly status?: CachedPodStatus;
}

export type CachedContainer = Pick<Container, 'name' | 'ports'>;

type Kept<T, K extends keyof T> = { readonly [P in K]?: T[P] | undefined };

export type CachedContainerStatus = Pick<ContainerStatus, 'name' | 'image' | 'restartCount'> &
  Kept<ContainerStatus, 'containerID' | 'state' | 'lastState'>;

export interface CachedPodStatus extends Kept<
  PodStatus,
  'phase' | 'reason' | 'message' | 'podIP' | 'conditions'
> {
  readonly containerStatuses?: readonly CachedContainerStatus[] | undefined;
  readonly initContainerStatuses?: readonly CachedContainerStatus[] | undefined;
}

export function cachedPod(pod: Pod, interner: Interner): CachedPod {
  const { apiVersion, kind, spec, status } = pod;
  return {
    apiVersion,
    kind,
    metadata: cachedPodMetadata(pod.metadata, interner),
    ...(spec === undefined ? {} : { spec: cachedSpec(spec) }),
    ...(status === undefined ? {} : { status: cachedStatus(status, interner) }),
  };
}

/** Keeps annotations of cluster autoscaler and Karpenter, which `cachedMetadata` removes. */
function cachedPodMetadata(metadata: Pod['metadata'], interner: Interner): CachedPod['metadata'] {
  const cached = cachedMetadata(metadata, interner);
  const kept = presentValues(metadata.annotations);
  return Object.keys(kept).length === 0
    ? cached
    : {
        ...cached,
        annotations: {
          ...cached.annotations,
          ...Object.fromEntries(
            Object.entries(kept).map(([key, value]) => [key, interner.of(value)]),
          ),
        },
      };
}

const cachedSpec = ({
  readinessGates,
  schedulingGates,
  containers,
  initContainers,
}: PodSpec): NonNullable<CachedPod['spec']> => ({
  ...(readinessGates === undefined ? {} : { readinessGates }),
  ...(schedulingGates === undefined ? {} : { schedulingGates }),
  containers: containers.map(({ name, ports }) =>
    ports === undefined ? { name } : { name, ports },
  ),
  ...(initContainers === undefined
    ? {}
    : {
        initContainers: initContainers.map(({ name, restartPolicy }) =>
          restartPolicy === undefined ? { name } : { name, restartPolicy },
        ),
      }),
});

/** An object literal with all fields takes less memory than an object built field by field. */
function cachedStatus(status: PodStatus, interner: Interner): CachedPodStatus {
  const { phase, reason, message, podIP, conditions } = status;
  for (const condition of conditions ?? [])
    interner.share(condition, 'type', 'reason', 'message', 'lastTransitionTime');
  const cachedOf = (container: ContainerStatus) => cachedContainerStatus(container, interner);
  const containerStatuses = status.containerStatuses?.map(cachedOf);
  const initContainerStatuses = status.initContainerStatuses?.map(cachedOf);
  return { phase, reason, message, podIP, conditions, containerStatuses, initContainerStatuses };
}

function cachedContainerStatus(
  container: ContainerStatus,
  interner: Interner,
): CachedContainerStatus {
  interner.share(container, 'image');
  const { name, image, containerID, state, lastState, restartCount } = container;
  return { name, image, containerID, state, lastState, restartCount };
}

export interface CachedClaim extends Omit<KubeObject, 'metadata'> {
  readonly metadata: CachedMetadata;
  readonly spec?: Pick<NonNullable<PersistentVolumeClaim['spec']>, 'storageClassName'>;
  readonly status?: Pick<NonNullable<PersistentVolumeClaim['status']>, 'phase'>;
}

export function cachedClaim(claim: PersistentVolumeClaim, interner: Interner): CachedClaim {
  const { apiVersion, kind, spec, status } = claim;
  return {
    apiVersion,
    kind: interner.of(kind),
    metadata: cachedMetadata(claim.metadata, interner),
    ...(spec?.storageClassName === undefined
      ? {}
      : { spec: { storageClassName: interner.of(spec.storageClassName) } }),
    ...(status?.phase === undefined ? {} : { status: { phase: status.phase } }),
  };
}
