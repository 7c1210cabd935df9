import { timestampOf, isLive } from '@conversation-operator/kube/object';
import { Controller, type Request, type Result } from '@conversation-operator/kube/controller';
import { isConflict, isNotFound, unlessChanged } from '@conversation-operator/kube/errors';
import type { Store } from '@conversation-operator/kube/store';
import {
  pods,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
} from '@conversation-operator/kube/core';
import { nodeLabels, removeTree, type NodeFolder } from './node.ts';
import type { NodeSettings } from './options.ts';
import { mkdir, readdir } from 'node:fs/promises';

export const claimNamesOf = (pod: Pod): readonly string[] =>
  (pod.spec?.volumes ?? []).flatMap(
    ({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? [],
  );

export const needsScheduling = ({ spec, metadata }: Pod): boolean =>
  (spec?.nodeName ?? '') === '' &&
  metadata.deletionTimestamp === undefined &&
  (spec?.schedulerName ?? 'default-scheduler') === 'default-scheduler' &&
  (spec?.schedulingGates ?? []).length === 0;

/** Returns the scheduler's message for a pod that does not fit the node; undefined if it fits. */
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

/** Binds pods to this node once their claims are bound, or reports why a pod can't be bound. */
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
      // The pod has changed or is gone. The watch reports that, and the pod is reconciled again.
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
    return undefined;
  };
  return new Controller({ ...settings, name: 'node-scheduler', workers: 4, reconcile });
}

export const byUid = 'uid';

/** Request for the folder of a claim. Unlike a request for a claim, it has no namespace. */
export const folderRequest = (claimUid: string): Request => ({ namespace: '', name: claimUid });

interface Options {
  readonly settings: NodeSettings;
  readonly folder: NodeFolder;
  /** Store of claims with the index `byUid`. */
  readonly claims: Store<PersistentVolumeClaim>;
  readonly isUsed: (claimUid: string) => boolean;
}

/** Creates a folder for each claim, and removes it when the claim and its last pod are gone. */
export class VolumeProvisioner {
  readonly controller: Controller;
  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
    this.controller = new Controller({
      ...options.settings,
      name: 'node-volumes',
      workers: 4,
      reconcile: (request) =>
        request.namespace === '' ? this.#removeUnclaimed(request.name) : this.#provide(request),
    });
  }

  /** Checks the folders of claims deleted while the node did not run. `claims` must have synced. */
  async sweep(): Promise<void> {
    for (const name of await readdir(this.#options.folder.volumes))
      this.controller.enqueue(folderRequest(name));
  }

  async #provide({ namespace, name }: Request): Promise<Result> {
    const claim = this.#options.claims.get(namespace, name);
    if (claim === undefined || !isLive(claim) || claim.status?.phase === 'Bound') return undefined;
    await mkdir(this.#options.folder.volume(claim.metadata.uid), { recursive: true, mode: 0o700 });
    // If the claim has changed, the watch reports the change and the claim is reconciled again.
    await unlessChanged(this.#named(claim).then((named) => this.#bind(named)));
    return undefined;
  }

  async #named(claim: PersistentVolumeClaim): Promise<PersistentVolumeClaim> {
    if (claim.spec?.volumeName !== undefined && claim.spec.volumeName !== '') return claim;
    const { namespace = '', name, uid, resourceVersion } = claim.metadata;
    return this.#options.settings.client.mergePatch(persistentVolumeClaims, namespace, name, {
      metadata: { resourceVersion },
      spec: { volumeName: `pvc-${uid}` },
    });
  }

  async #bind(claim: PersistentVolumeClaim): Promise<void> {
    const storage = claim.spec?.resources?.requests?.['storage'];
    await this.#options.settings.client.updateStatus(persistentVolumeClaims, {
      ...claim,
      status: {
        phase: 'Bound',
        ...(claim.spec?.accessModes === undefined ? {} : { accessModes: claim.spec.accessModes }),
        ...(storage === undefined ? {} : { capacity: { storage } }),
      },
    });
  }

  async #removeUnclaimed(claimUid: string): Promise<Result> {
    if (this.#options.claims.byIndex(byUid, claimUid).length > 0 || this.#options.isUsed(claimUid))
      return undefined;
    await removeTree(this.#options.folder.volume(claimUid));
    this.#options.settings.logger.info('The volume of a deleted claim has been removed', {
      claimUid,
    });
    return undefined;
  }
}
