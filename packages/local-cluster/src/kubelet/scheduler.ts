import { Controller, type Result } from '@conversation-operator/kube/controller';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import type { Store } from '@conversation-operator/kube/store';
import { pods, type PersistentVolumeClaim, type Pod } from '@conversation-operator/kube/core';
import { nodeLabels, wholeSeconds } from './node-object.ts';
import type { NodeSettings } from './options.ts';

/** Names of the claims that a pod's volumes stand for. */
export const claimNamesOf = (pod: Pod): readonly string[] =>
  (pod.spec?.volumes ?? []).flatMap(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? []);

/** Whether it is for this scheduler to find a node for the pod. */
export const needsNode = ({ spec, metadata }: Pod): boolean =>
  (spec?.nodeName ?? '') === '' &&
  metadata.deletionTimestamp === undefined &&
  (spec?.schedulerName ?? 'default-scheduler') === 'default-scheduler' &&
  (spec?.schedulingGates ?? []).length === 0;

/** Why the pod can't be on the node, in the scheduler's words; undefined when it can. */
export function obstacle(
  pod: Pod,
  labels: Readonly<Record<string, string>>,
  claim: (name: string) => PersistentVolumeClaim | undefined,
): string | undefined {
  const none = '0/1 nodes are available: ';
  for (const [key, value] of Object.entries(pod.spec?.nodeSelector ?? {})) {
    if (labels[key] !== value) return `${none}1 node(s) didn't match Pod's node affinity/selector.`;
  }
  for (const name of claimNamesOf(pod)) {
    const found = claim(name);
    if (found === undefined) return `${none}persistentvolumeclaim "${name}" not found.`;
    if (found.metadata.deletionTimestamp !== undefined) return `${none}persistentvolumeclaim "${name}" is being deleted.`;
    if (found.status?.phase !== 'Bound') return `${none}pod has unbound immediate PersistentVolumeClaims.`;
  }
  return undefined;
}

/** Binds pods without a node to this one, once their claims are bound; says why where it can't. */
export function createScheduler(options: {
  readonly settings: NodeSettings;
  readonly pods: Store<Pod>;
  readonly claims: Store<PersistentVolumeClaim>;
}): Controller {
  const { settings, claims } = options;
  const { client, clock, name: nodeName, events } = settings;
  const labels = nodeLabels(nodeName);

  const refuse = async (pod: Pod, message: string): Promise<void> => {
    const conditions = pod.status?.conditions ?? [];
    const old = conditions.find(({ type }) => type === 'PodScheduled');
    if (old?.status === 'False' && old.message === message) return;
    const condition = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message, lastTransitionTime: wholeSeconds(clock) };
    const others = conditions.filter(({ type }) => type !== 'PodScheduled');
    await client.updateStatus(pods, {
      ...pod,
      status: { ...pod.status, phase: pod.status?.phase ?? 'Pending', conditions: [...others, condition] },
    });
    events.record(pod, { type: 'Warning', reason: 'FailedScheduling', message });
  };

  const reconcile = async ({ namespace, name }: { readonly namespace: string; readonly name: string }): Promise<Result> => {
    const pod = options.pods.get(namespace, name);
    if (pod === undefined || !needsNode(pod)) return undefined;
    const message = obstacle(pod, labels, (claimName) => claims.get(namespace, claimName));
    try {
      if (message !== undefined) {
        await refuse(pod, message);
        return undefined;
      }
      await client.createSubresource(pods, namespace, name, 'binding', {
        apiVersion: 'v1',
        kind: 'Binding',
        metadata: { namespace, name, uid: pod.metadata.uid },
        target: { apiVersion: 'v1', kind: 'Node', name: nodeName },
      });
      events.record(pod, { type: 'Normal', reason: 'Scheduled', message: `Successfully assigned ${namespace}/${name} to ${nodeName}` });
    } catch (error) {
      // Gone, bound or changed since: the watch tells, and it is looked at again.
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
    return undefined;
  };
  return new Controller({ ...settings, name: 'node-scheduler', workers: 4, reconcile });
}
