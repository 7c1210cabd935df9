import type { KubeClient } from '@conversation-operator/kube/client';
import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import { silentLogger } from '@conversation-operator/base/logger';
import { connect, createRuntime } from './process.ts';

export interface ClusterOptions {
  /** By default $KUBECONFIG, ~/.kube/config, or the pod. */
  readonly kubeconfig?: string;
  /** By default that of the kubeconfig. */
  readonly namespace?: string;
}

/** Runs a short piece of work with the rights of the user who runs the command. */
export async function withClient<T>(
  options: ClusterOptions,
  work: (client: KubeClient, namespace: string) => Promise<T>,
): Promise<T> {
  const { connection, namespace } = await loadConnection(
    options.kubeconfig === undefined ? {} : { kubeconfig: options.kubeconfig },
  );
  const { client, transport } = connect(connection, createRuntime(silentLogger));
  try {
    return await work(client, options.namespace ?? namespace);
  } finally {
    await transport.close();
  }
}
