import { Reflector } from '@conversation-operator/kube/reflector';
import {
  persistentVolumeClaims,
  pods,
  type PersistentVolumeClaim,
  type Pod,
} from '@conversation-operator/kube/core';
import type { PodLogOptions } from '../api/pod-logs.ts';
import { AddressPool, reportNode, NodeFolder, lockNode } from './node.ts';
import { kubeletBackOff } from './container-record.ts';
import { LocalRunner } from './local-runner.ts';
import type { NodeSettings, LocalKubeletOptions, ProcessRunner } from './options.ts';
import { PodManager } from './pod-runtime.ts';
import {
  claimNamesOf,
  createScheduler,
  needsScheduling,
  VolumeProvisioner,
  byUid,
  folderRequest,
} from './node-controllers.ts';

const requestOf = ({ metadata }: Pod | PersistentVolumeClaim) => ({
  namespace: metadata.namespace ?? '',
  name: metadata.name,
});

const byClaim = 'claim';
const defaultMaxLogBytes = 10 * 1024 * 1024;

const withDefaults = (options: LocalKubeletOptions): NodeSettings => ({
  name: 'local',
  environment: process.env,
  events: { record: () => undefined },
  stopGraceMs: 5000,
  maxLogBytes: defaultMaxLogBytes,
  reservationPort: 10250,
  ...options,
  backOff: { ...kubeletBackOff, ...options.backOff },
});

interface Running {
  readonly manager: PodManager;
  /** Resources of the running node, disposed in the reverse order of their creation. */
  readonly stack: AsyncDisposableStack;
}

/**
 * Scheduler, kubelet and volume provisioner of a cluster of one machine: every container is a
 * process, every claim a folder, and every pod has a loopback address. All state in memory can be
 * rebuilt: after `kill -9`, the next `start` ends the processes of the previous one and runs the
 * pods that still exist.
 *
 * Processes are not isolated: they run as this user and have access to its files. Sidecars, probes
 * other than httpGet and tcpSocket, resource limits, lifecycle hooks, security contexts, host
 * paths, ephemeral containers and readiness gates are not supported. A pod whose server binds
 * 0.0.0.0 takes the port from every other pod; the variable HOST contains the address to bind.
 */
export class LocalKubelet {
  readonly #options: LocalKubeletOptions;
  readonly #settings: NodeSettings;
  #running: Running | undefined;

  constructor(options: LocalKubeletOptions) {
    this.#options = options;
    this.#settings = withDefaults(options);
  }

  /** Resolves when pods are accepted. Throws if not on Linux, or if the data folder is in use. */
  async start(): Promise<void> {
    if (this.#running !== undefined) throw new Error('the local kubelet has been started already');
    if (process.platform !== 'linux')
      throw new Error('the local kubelet requires Linux, because of sessions and /proc');
    const folder = new NodeFolder(this.#settings.dataDir);
    await folder.create();
    const nodeId = await folder.nodeId();
    await using stack = new AsyncDisposableStack();
    stack.defer(await lockNode(nodeId));
    const manager = await this.#begin(folder, nodeId, stack);
    this.#running = { manager, stack: stack.move() };
  }

  /** Ends every container and process. The pods remain in the API, and the next start runs them. */
  async stop(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    await running?.stack.disposeAsync();
  }

  open(
    podUid: string,
    containerName: string,
    options: PodLogOptions,
  ): AsyncIterable<Uint8Array> | undefined {
    return this.#running?.manager.log(podUid, containerName)?.open(options);
  }

  async #begin(
    folder: NodeFolder,
    nodeId: string,
    stack: AsyncDisposableStack,
  ): Promise<PodManager> {
    const settings = this.#settings;
    const { client, clock, logger, name } = settings;
    const addresses = new AddressPool({ random: settings.random, port: settings.reservationPort });
    const probe = await addresses.reserve();
    await probe.release();
    const runner: ProcessRunner =
      this.#options.runner ?? new LocalRunner({ nodeId, clock, logger });
    await runner.recover();
    stack.defer(() => runner.close());
    await reportNode({ client, clock, name, ready: true });
    stack.defer(() =>
      reportNode({ client, clock, name, ready: false }).catch((error: unknown) => {
        logger.warn('The end of the node could not be reported', { error });
      }),
    );

    const podReflector = new Reflector({
      ...settings,
      resource: pods,
      indexers: {
        [byClaim]: (pod) =>
          claimNamesOf(pod).map((claim) => `${pod.metadata.namespace ?? ''}/${claim}`),
      },
    });
    const claimReflector = new Reflector({
      ...settings,
      resource: persistentVolumeClaims,
      indexers: { [byUid]: ({ metadata }) => [metadata.uid] },
    });
    const scheduler = createScheduler({
      settings,
      pods: podReflector.store,
      claims: claimReflector.store,
    });
    const manager = new PodManager({
      settings,
      folder,
      runner,
      addresses,
      pods: podReflector.store,
      onReleased: (claimUids) =>
        [...claimUids].forEach((uid) => provisioner.controller.enqueue(folderRequest(uid))),
    });
    const provisioner = new VolumeProvisioner({
      settings,
      folder,
      claims: claimReflector.store,
      isUsed: (claimUid) => manager.isUsed(claimUid),
    });

    const onPod = (pod: Pod) => {
      if (needsScheduling(pod)) scheduler.enqueue(requestOf(pod));
      else manager.controller.enqueue(requestOf(pod));
    };
    podReflector.addHandler({
      added: onPod,
      updated: onPod,
      deleted: (pod) => manager.controller.enqueue(requestOf(pod)),
    });
    const onClaim = (claim: PersistentVolumeClaim) => {
      provisioner.controller.enqueue(requestOf(claim));
      const waiting = podReflector.store.byIndex(
        byClaim,
        `${claim.metadata.namespace ?? ''}/${claim.metadata.name}`,
      );
      waiting.filter(needsScheduling).forEach(onPod);
    };
    claimReflector.addHandler({
      added: onClaim,
      updated: onClaim,
      deleted: (claim) => {
        onClaim(claim);
        provisioner.controller.enqueue(folderRequest(claim.metadata.uid));
      },
    });

    for (const reflector of [podReflector, claimReflector]) {
      reflector.start();
      stack.defer(() => reflector.stop());
    }
    await Promise.all([podReflector.synced(), claimReflector.synced()]);
    await manager.sweep();
    await provisioner.sweep();
    manager.controller.start();
    stack.defer(() => manager.stop(settings.stopGraceMs));
    for (const controller of [provisioner.controller, scheduler]) {
      controller.start();
      stack.defer(() => controller.stop());
    }
    logger.info('The node accepts pods', { node: name, dataDir: folder.root });
    return manager;
  }
}
