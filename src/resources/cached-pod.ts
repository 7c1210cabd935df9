import { cachedMetadata } from './cached-metadata.ts';
import type { Container, Pod } from '@conversation-operator/kube/core';
import type { Interner } from './interner.ts';
import type { CachedMetadata, KubeObject } from '@conversation-operator/kube/object';

type PodSpec = NonNullable<Pod['spec']>;

/**
 * A pod as caches hold it: of its spec, by far the largest part, only what says which container is
 * the agent's, where it listens, and which of the others may end. The environment of a container,
 * which may hold secrets, is absent.
 */
export interface CachedPod extends Omit<KubeObject, 'metadata'> {
  readonly metadata: CachedMetadata;
  readonly spec?: Pick<PodSpec, 'readinessGates'> & {
    readonly containers: readonly CachedContainer[];
    readonly initContainers?: readonly Pick<Container, 'name' | 'restartPolicy'>[];
  };
  readonly status?: Pod['status'];
}

export type CachedContainer = Pick<Container, 'name' | 'ports'>;

/** The transform of the cache of pods. */
export function cachedPod(pod: Pod, interner: Interner): CachedPod {
  const { apiVersion, kind, spec, status } = pod;
  return {
    apiVersion,
    kind,
    metadata: cachedMetadata(pod.metadata, interner),
    ...(spec === undefined ? {} : { spec: cachedSpec(spec) }),
    ...(status === undefined ? {} : { status }),
  };
}

const cachedSpec = ({
  readinessGates,
  containers,
  initContainers,
}: PodSpec): NonNullable<CachedPod['spec']> => ({
  ...(readinessGates === undefined ? {} : { readinessGates }),
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
