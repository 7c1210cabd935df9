import { timestampOf } from '@conversation-operator/kube/object';
import { Controller, type Request, type Result } from '@conversation-operator/kube/controller';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import type { Store } from '@conversation-operator/kube/store';
import { pods, type PersistentVolumeClaim, type Pod } from '@conversation-operator/kube/core';
import { nodeLabels } from './node-object.ts';
import type { NodeSettings } from './options.ts';

/** Returns the names of the claims of a pod's volumes. */
export const claimNamesOf = (pod: Pod): readonly string[] =>
  (pod.spec?.volumes ?? []).flatMap(
    ({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? [],
  );

/** Returns whether this scheduler has to assign a node to the pod. */
export const needsScheduling = ({ spec, metadata }: Pod): boolean =>
  (spec?.nodeName ?? '') === '' &&
  metadata.deletionTimestamp === undefined &&
  (spec?.schedulerName ?? 'default-scheduler') === 'default-scheduler' &&
  (spec?.schedulingGates ?? []).length === 0;

/**
 * Returns the message of the scheduler when the pod does not fit the node; undefined when the pod
 * fits.
 */
export function unschedulableMessage(
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
    if (found.metadata.deletionTimestamp !== undefined)
      return `${none}persistentvolumeclaim "${name}" is being deleted.`;
    if (found.status?.phase !== 'Bound')
      return `${none}pod has unbound immediate PersistentVolumeClaims.`;
  }
  return undefined;
}

/**
 * Creates the scheduler, which binds pods without a node to this node once their claims are bound,
 * and reports unschedulable pods.
 */
export function createScheduler(options: {
  readonly settings: NodeSettings;
  readonly pods: Store<Pod>;
  readonly claims: Store<PersistentVolumeClaim>;
}): Controller {
  const { settings, claims } = options;
  const { client, clock, name: nodeName, events } = settings;
  const labels = nodeLabels(nodeName);

  const reportUnschedulable = async (pod: Pod, message: string): Promise<void> => {
    const conditions = pod.status?.conditions ?? [];
    const old = conditions.find(({ type }) => type === 'PodScheduled');
    if (old?.status === 'False' && old.message === message) return;
    const condition = {
      type: 'PodScheduled',
      status: 'False',
      reason: 'Unschedulable',
      message,
      lastTransitionTime: timestampOf(clock.now()),
    };
    const others = conditions.filter(({ type }) => type !== 'PodScheduled');
    await client.updateStatus(pods, {
      ...pod,
      status: {
        ...pod.status,
        phase: pod.status?.phase ?? 'Pending',
        conditions: [...others, condition],
      },
    });
    events.record(pod, { type: 'Warning', reason: 'FailedScheduling', message });
  };

  const reconcile = async ({ namespace, name }: Request): Promise<Result> => {
    const pod = options.pods.get(namespace, name);
    if (pod === undefined || !needsScheduling(pod)) return undefined;
    const message = unschedulableMessage(pod, labels, (claimName) =>
      claims.get(namespace, claimName),
    );
    try {
      if (message !== undefined) {
        await reportUnschedulable(pod, message);
        return undefined;
      }
      await client.createSubresource(pods, namespace, name, 'binding', {
        apiVersion: 'v1',
        kind: 'Binding',
        metadata: { namespace, name, uid: pod.metadata.uid },
        target: { apiVersion: 'v1', kind: 'Node', name: nodeName },
      });
      events.record(pod, {
        type: 'Normal',
        reason: 'Scheduled',
        message: `Successfully assigned ${namespace}/${name} to ${nodeName}`,
      });
    } catch (error) {
      // The pod was deleted, bound or changed. The watch reports the change, and the pod is
      // reconciled again.
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
    return undefined;
  };
  return new Controller({ ...settings, name: 'node-scheduler', workers: 4, reconcile });
}
