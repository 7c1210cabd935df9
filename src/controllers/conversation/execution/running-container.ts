import type { KubeClient } from '@conversation-operator/kube/client';
import { isNotFound } from '@conversation-operator/kube/errors';
import { pods } from '@conversation-operator/kube/core';
import type { Sandbox } from '../../../resources/sandbox.ts';

/**
 * Whether the container that a sandbox names runs, by what the API server says of its pod. A cached sandbox may name one that was
 * exchanged since, for as long as a watch is behind.
 */
export async function isContainerRunning(
  client: Pick<KubeClient, 'get'>,
  { metadata: { namespace, name }, status }: Sandbox,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const pod = await client.get(pods, namespace, name, { signal });
    const containers = pod.status?.containerStatuses ?? [];
    return containers.some(({ containerID, state }) => containerID === status?.containerID && state?.running !== undefined);
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
