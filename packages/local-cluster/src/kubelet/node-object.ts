import { timestampOf } from '@conversation-operator/kube/object';
import { availableParallelism, release, totalmem } from 'node:os';
import { isAlreadyExists } from '@conversation-operator/kube/errors';
import type { Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { nodes, type Node } from '@conversation-operator/kube/core';

/** Address of the node, under which its pods see it. */
export const hostIP = '127.0.0.1';

const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };
const maxPods = 500;

/** Labels that the nodeSelector of a pod may require. */
export const nodeLabels = (name: string): Readonly<Record<string, string>> => ({
  'kubernetes.io/hostname': name,
  'kubernetes.io/os': process.platform,
  'kubernetes.io/arch': architectures[process.arch] ?? process.arch,
});

function statusOf(name: string, ready: boolean, now: string): NonNullable<Node['status']> {
  const resources = {
    cpu: String(availableParallelism()),
    memory: `${Math.floor(totalmem() / 1024)}Ki`,
    pods: String(maxPods),
  };
  return {
    capacity: resources,
    allocatable: resources,
    addresses: [
      { type: 'InternalIP', address: hostIP },
      { type: 'Hostname', address: name },
    ],
    conditions: [
      {
        type: 'Ready',
        status: ready ? 'True' : 'False',
        reason: ready ? 'KubeletReady' : 'NodeStopped',
        message: ready ? 'pods run as local processes' : 'the node has been stopped',
        lastHeartbeatTime: now,
        lastTransitionTime: now,
      },
    ],
    nodeInfo: {
      architecture: architectures[process.arch] ?? process.arch,
      bootID: '',
      containerRuntimeVersion: `process://${process.versions.node}`,
      kernelVersion: release(),
      kubeProxyVersion: '',
      kubeletVersion: 'v1.34.0-process',
      machineID: '',
      operatingSystem: process.platform,
      osImage: process.platform,
      systemUUID: '',
    },
  };
}

/** Reports through the Node object whether this node accepts pods. */
export async function reportNode(options: {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly name: string;
  readonly ready: boolean;
}): Promise<void> {
  const { client, clock, name, ready } = options;
  const status = statusOf(name, ready, timestampOf(clock.now()));
  try {
    await client.create(nodes, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name, labels: { ...nodeLabels(name) } },
      spec: {},
    });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
  await client.mergePatch(nodes, '', name, { status }, { subresource: 'status' });
}
