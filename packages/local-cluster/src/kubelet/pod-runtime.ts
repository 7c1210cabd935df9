import { timestampOf } from '@conversation-operator/kube/object';
import { mkdir, readdir } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { found, isConflict, isNotFound, unlessChanged } from '@conversation-operator/kube/errors';
import type { Logger } from '@conversation-operator/base/logger';
import { pods, type Pod } from '@conversation-operator/kube/core';
import { type AddressPool, type Reservation, hostIP, removeTree, type NodeFolder } from './node.ts';
import type { ContainerLog } from './container-log.ts';
import { isTerminalPhase } from './container-record.ts';
import { decide, isOver, type Plan } from './decide.ts';
import { PodContainers, type PodContainersOptions } from './pod-containers.ts';
import { podStatusOf, type PodStatus } from './pod-status.ts';
import { join } from 'node:path';
import { Controller, type Request, type Result } from '@conversation-operator/kube/controller';
import type { Store } from '@conversation-operator/kube/store';
import type { NodeSettings, ProcessRunner } from './options.ts';

export interface PodRuntimeOptions extends PodContainersOptions {
  readonly pod: Pod;
  readonly addresses: AddressPool;
}

const noneWaiting: Plan['waiting'] = new Map();
const maxReportAttempts = 5;

/**
 * Runs one pod, from its assignment to this node until its processes and files are gone. `sync`
 * never runs concurrently for a pod. A pod of the same name with another uid has its own runtime.
 */
export class PodRuntime {
  readonly uid: string;
  readonly #options: PodRuntimeOptions;
  readonly #logger: Logger;
  readonly #containers: PodContainers;
  readonly #startTime: string;
  #reported: PodStatus | undefined;
  #address: Reservation | undefined;
  #phase: 'living' | 'suspended' | 'killed' = 'living';
  #ended: boolean;

  constructor(options: PodRuntimeOptions) {
    const { pod, settings } = options;
    const { namespace, name, uid } = pod.metadata;
    this.uid = uid;
    this.#options = options;
    this.#logger = settings.logger.child({ namespace, pod: name, podUid: uid });
    this.#containers = new PodContainers(pod, this.#logger, options);
    this.#reported = pod.status;
    this.#startTime = pod.status?.startTime ?? timestampOf(settings.clock.now());
    this.#ended = isTerminalPhase(pod.status?.phase);
  }

  get claimUids(): ReadonlySet<string> {
    return this.#containers.claimUids;
  }

  log(containerName: string): ContainerLog | undefined {
    return this.#containers.log(containerName);
  }

  /** Starts or ends containers, reports the status, and returns the delay until the next call. */
  async sync(pod: Pod): Promise<{ readonly requeueAfterMs?: number }> {
    this.#containers.pod = pod;
    if (this.#phase !== 'living') return {};
    if (pod.metadata.deletionTimestamp !== undefined) {
      await this.#finish();
      return {};
    }
    const first = this.#plan();
    if (first.start.length > 0) {
      const { address } = await this.#reservedAddress();
      await Promise.all(first.start.map((name) => this.#containers.start(name, address)));
    }
    const plan = this.#plan();
    this.#ended ||= isOver(pod, this.#containers.records);
    await this.#report(plan.waiting);
    if (this.#isDone) await this.#releaseAddress();
    // Other containers may be due now, for example after the end of an init container.
    if (plan.start.length > 0) return { requeueAfterMs: 0 };
    return plan.nextInMs === undefined ? {} : { requeueAfterMs: plan.nextInMs };
  }

  /** Ends all containers, and waits for that. The next start of the node runs the pod again. */
  async suspend(graceMs: number): Promise<void> {
    if (this.#phase === 'living') this.#phase = 'suspended';
    await this.#containers.suspend(graceMs, { again: !this.#ended });
    await this.#report(noneWaiting).catch((error: unknown) =>
      this.#logger.warn('The last status of a pod could not be written', { error }),
    );
    await this.#releaseAddress();
  }

  /** Kills all processes. Resolves when none remains. */
  async kill(): Promise<void> {
    this.#phase = 'killed';
    await this.#containers.kill();
  }

  /** Removes the files of the pod. The caller ensures that no process runs. */
  async remove(): Promise<void> {
    await this.#releaseAddress();
    await removeTree(this.#options.folder.pod(this.uid));
  }

  /** Whether no container of the pod runs or will run again. */
  get #isDone(): boolean {
    return this.#ended && !this.#containers.isRunning;
  }

  #plan(): Plan {
    if (this.#isDone) return { start: [], waiting: noneWaiting };
    const { pod, records } = this.#containers;
    return decide(pod, records, this.#options.settings.clock.monotonic());
  }

  /** Ends the containers of a deleted pod, reports their end, and deletes the Pod object. */
  async #finish(): Promise<void> {
    this.#containers.terminateAll();
    await this.#report(noneWaiting);
    if (this.#containers.isRunning) return;
    const { namespace = '', name } = this.#containers.pod.metadata;
    const options = { uid: this.uid, gracePeriodSeconds: 0 };
    // If the pod is not found or has another uid, this pod is gone.
    await unlessChanged(this.#options.settings.client.delete(pods, namespace, name, options));
  }

  async #reservedAddress(): Promise<Reservation> {
    const { addresses, folder, settings } = this.#options;
    try {
      this.#address ??= await addresses.reserve(this.#reported?.podIP);
    } catch (error) {
      settings.events.record(this.#containers.pod, {
        type: 'Warning',
        reason: 'FailedCreatePodSandBox',
        message: error instanceof Error ? error.message : String(error),
      });
      throw error;
    }
    await mkdir(folder.pod(this.uid), { recursive: true, mode: 0o700 });
    return this.#address;
  }

  async #releaseAddress(): Promise<void> {
    const address = this.#address;
    this.#address = undefined;
    await address?.release();
  }

  /** Writes a changed status. After a conflict, computes it again from the current pod. */
  async #report(waiting: Plan['waiting']): Promise<void> {
    const { client } = this.#options.settings;
    let base: Pod | undefined = this.#containers.pod;
    for (let attempt = 1; base?.metadata.uid === this.uid; attempt += 1) {
      const status = this.#status(base, waiting);
      if (isDeepStrictEqual(status, this.#reported)) return;
      try {
        this.#containers.pod = await client.updateStatus(pods, { ...base, status });
        this.#reported = status;
        return;
      } catch (error) {
        if (isNotFound(error)) return;
        if (!isConflict(error) || attempt === maxReportAttempts) throw error;
      }
      const { namespace = '', name }: Pod['metadata'] = base.metadata;
      base = await found(client.get(pods, namespace, name));
    }
  }

  #status(pod: Pod, waiting: Plan['waiting']): PodStatus {
    const podIP = this.#address?.address;
    return podStatusOf({
      pod,
      records: this.#containers.records,
      waiting,
      ...(podIP === undefined ? {} : { podIP }),
      hostIP,
      startTime: this.#startTime,
      previous: this.#reported,
      suspended: this.#phase === 'suspended',
      now: timestampOf(this.#options.settings.clock.now()),
    });
  }
}

/** Maximum concurrent calls of `sync`. The start of a container costs a few files and a fork. */
const workers = 8;

interface PodManagerOptions {
  readonly settings: NodeSettings;
  readonly folder: NodeFolder;
  readonly runner: ProcessRunner;
  readonly addresses: AddressPool;
  readonly pods: Store<Pod>;
  /** Called when a pod is gone and no longer uses the volumes of these claims. */
  readonly onReleased: (claimUids: Iterable<string>) => void;
}

/** Runtimes of this node's pods by name. A recreated pod waits until the previous one is gone. */
export class PodManager {
  readonly controller: Controller;
  readonly #options: PodManagerOptions;
  readonly #runtimes = new Map<string, PodRuntime>();

  constructor(options: PodManagerOptions) {
    this.#options = options;
    this.controller = new Controller({
      ...options.settings,
      name: 'node-pods',
      workers,
      reconcile: (request) => this.#reconcile(request),
    });
  }

  isUsed(claimUid: string): boolean {
    return this.#runtimes.values().some((runtime) => runtime.claimUids.has(claimUid));
  }

  log(podUid: string, containerName: string): ContainerLog | undefined {
    return this.#runtimes
      .values()
      .find(({ uid }) => uid === podUid)
      ?.log(containerName);
  }

  /** Removes folders of pods deleted while the node did not run. The store must have synced. */
  async sweep(): Promise<void> {
    const { pods, folder } = this.#options;
    const present = new Set(pods.list().map(({ metadata }) => metadata.uid));
    for (const name of await readdir(folder.pods)) {
      if (!present.has(name)) await removeTree(join(folder.pods, name));
    }
  }

  async stop(graceMs: number): Promise<void> {
    await this.controller.stop();
    await Promise.all(this.#runtimes.values().map((runtime) => runtime.suspend(graceMs)));
    this.#runtimes.clear();
  }

  async #reconcile(request: Request): Promise<Result> {
    const { settings, pods } = this.#options;
    const key = `${request.namespace}/${request.name}`;
    const pod = pods.get(request.namespace, request.name);
    const present = this.#runtimes.get(key);
    if (present !== undefined && present.uid !== pod?.metadata.uid) {
      await present.kill();
      await present.remove();
      this.#runtimes.delete(key);
      this.#options.onReleased(present.claimUids);
    }
    if (pod?.spec?.nodeName !== settings.name) return undefined;
    return this.#runtimeOf(key, pod, request).sync(pod);
  }

  #runtimeOf(key: string, pod: Pod, request: Request): PodRuntime {
    const present = this.#runtimes.get(key);
    if (present !== undefined) return present;
    const runtime = new PodRuntime({
      ...this.#options,
      pod,
      onChange: () => this.controller.enqueue(request),
    });
    this.#runtimes.set(key, runtime);
    return runtime;
  }
}
