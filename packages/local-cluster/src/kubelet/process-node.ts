import { Reflector } from '@conversation-operator/kube/reflector';
import { persistentVolumeClaims, pods, type PersistentVolumeClaim, type Pod } from '@conversation-operator/kube/core';
import { AddressPool } from './address-pool.ts';
import { kubeletBackOff } from './back-off.ts';
import { LocalRunner } from './local-runner.ts';
import { NodeFolder, lockNode } from './node-folder.ts';
import { reportNode } from './node-object.ts';
import type { NodeSettings, ProcessNodeOptions } from './options.ts';
import { PodManager } from './pod-manager.ts';
import type { ProcessRunner } from './process-runner.ts';
import { claimNamesOf, createScheduler, needsNode } from './scheduler.ts';
import { VolumeProvisioner, byUid, folderRequest } from './volume-provisioner.ts';

export type { EventSink, ImageProgram, ProcessNodeOptions } from './options.ts';

const requestOf = ({ metadata }: Pod | PersistentVolumeClaim) => ({ namespace: metadata.namespace ?? '', name: metadata.name });

const byClaim = 'claim';
const defaultMaxLogBytes = 10 * 1024 * 1024;

const withDefaults = (options: ProcessNodeOptions): NodeSettings => ({
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
  /** Ends everything, last begun first. */
  readonly stack: AsyncDisposableStack;
}

/**
 * Scheduler, kubelet and volume provisioner of a cluster of one machine: every container is a process, every claim a folder, every
 * pod has a loopback address. It keeps nothing in memory that it can't find again: after `kill -9`, the next `start` ends what the
 * one before has left running and runs what is still wanted.
 *
 * Not a boundary: processes run as this user, see its files, and are held apart by convention only. Not done: resource limits,
 * lifecycle hooks, security contexts, host paths, ephemeral containers, gRPC probes. A pod whose server binds 0.0.0.0 takes the
 * port from every other pod: HOST holds the address to bind.
 */
export class ProcessNode {
  readonly #options: ProcessNodeOptions;
  readonly #settings: NodeSettings;
  #running: Running | undefined;

  constructor(options: ProcessNodeOptions) {
    this.#options = options;
    this.#settings = withDefaults(options);
  }

  /** Resolves when pods are taken. Throws when the machine can't do it, or another process has the data folder. */
  async start(): Promise<void> {
    if (this.#running !== undefined) throw new Error('the process node has been started already');
    if (process.platform !== 'linux') throw new Error('a process node needs Linux: sessions and /proc');
    const folder = new NodeFolder(this.#settings.dataDir);
    await folder.create();
    const nodeId = await folder.nodeId();
    await using stack = new AsyncDisposableStack();
    stack.defer(await lockNode(nodeId));
    const manager = await this.#begin(folder, nodeId, stack);
    this.#running = { manager, stack: stack.move() };
  }

  /** Ends every container and resolves when no process is left. The pods stay in the API: the next start runs them again. */
  async stop(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    await running?.stack.disposeAsync();
  }

  /** The output of a container's present or previous run; undefined when there is none. */
  open(
    podUid: string,
    containerName: string,
    options: { readonly follow: boolean; readonly tailLines?: number; readonly previous: boolean; readonly signal: AbortSignal },
  ): AsyncIterable<Uint8Array> | undefined {
    return this.#running?.manager.log(podUid, containerName)?.open(options);
  }

  async #begin(folder: NodeFolder, nodeId: string, stack: AsyncDisposableStack): Promise<PodManager> {
    const settings = this.#settings;
    const { client, clock, logger, name } = settings;
    const addresses = new AddressPool({ random: settings.random, port: settings.reservationPort });
    const probe = await addresses.reserve();
    await probe.release();
    const runner: ProcessRunner = this.#options.runner ?? new LocalRunner({ nodeId, runsDir: folder.runs, clock, logger });
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
      indexers: { [byClaim]: (pod) => claimNamesOf(pod).map((claim) => `${pod.metadata.namespace ?? ''}/${claim}`) },
    });
    const claimReflector = new Reflector({
      ...settings,
      resource: persistentVolumeClaims,
      indexers: { [byUid]: ({ metadata }) => [metadata.uid] },
    });
    const scheduler = createScheduler({ settings, pods: podReflector.store, claims: claimReflector.store });
    const manager = new PodManager({
      settings,
      folder,
      runner,
      addresses,
      pods: podReflector.store,
      onReleased: (claimUids) => [...claimUids].forEach((uid) => provisioner.controller.enqueue(folderRequest(uid))),
    });
    const provisioner = new VolumeProvisioner({
      settings,
      folder,
      claims: claimReflector.store,
      isUsed: (claimUid) => manager.isUsed(claimUid),
    });

    const onPod = (pod: Pod) => {
      if (needsNode(pod)) scheduler.enqueue(requestOf(pod));
      else manager.controller.enqueue(requestOf(pod));
    };
    podReflector.addHandler({ added: onPod, updated: onPod, deleted: (pod) => manager.controller.enqueue(requestOf(pod)) });
    const onClaim = (claim: PersistentVolumeClaim) => {
      provisioner.controller.enqueue(requestOf(claim));
      const waiting = podReflector.store.byIndex(byClaim, `${claim.metadata.namespace ?? ''}/${claim.metadata.name}`);
      waiting.filter(needsNode).forEach(onPod);
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
    logger.info('The node takes pods', { node: name, dataDir: folder.root });
    return manager;
  }
}
