import type { KubeClient } from '@conversation-operator/kube/client';
import { isAlreadyExists } from '@conversation-operator/kube/errors';
import { apiVersion } from '../resources/group.ts';
import { sandboxPools } from '../resources/sandbox-pool.ts';

/**
 * Sets the number of spares that a local installation keeps of a template. Undefined leaves the
 * pool of an earlier start as it is.
 */
export async function keepWarm(
  client: KubeClient,
  namespace: string,
  templateName: string,
  replicas: number | undefined,
): Promise<void> {
  if (replicas === undefined) return;
  const { kind } = sandboxPools;
  const metadata = { name: templateName, namespace };
  const spec = { templateName, replicas, refill: { maxPerMinute: 60, delay: '1s' } };
  try {
    await client.create(sandboxPools, { apiVersion, kind, metadata, spec });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    await client.mergePatch(sandboxPools, namespace, templateName, { spec: { replicas } });
  }
}
