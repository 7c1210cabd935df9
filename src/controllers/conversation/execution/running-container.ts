import type { KubeClient } from '@conversation-operator/kube/client';
import { pods } from '@conversation-operator/kube/core';
import type { Sandbox } from '../../../resources/sandbox.ts';
import { storedObject } from '../../stored-object.ts';

/**
 * Whether the container that a sandbox names runs, as the API server reports it. A cached sandbox
 * may name a container that was replaced since, for as long as a watch is behind.
 */
export async function isContainerRunning(
  client: Pick<KubeClient, 'get'>,
  { metadata: { namespace, name }, status }: Sandbox,
  signal: AbortSignal,
): Promise<boolean> {
  const pod = await storedObject(client, pods, { metadata: { namespace, name } }, signal);
  const containers = pod?.status?.containerStatuses ?? [];
  return containers.some(
    ({ containerID, state }) => containerID === status?.containerID && state?.running !== undefined,
  );
}
