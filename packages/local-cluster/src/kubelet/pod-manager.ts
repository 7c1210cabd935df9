import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Controller, type Request, type Result } from '@conversation-operator/kube/controller';
import type { Store } from '@conversation-operator/kube/store';
import type { Pod } from '@conversation-operator/kube/core';
import type { AddressPool } from './address-pool.ts';
import type { ContainerLog } from './container-log.ts';
import { removeTree, type NodeFolder } from './node-folder.ts';
import type { NodeSettings } from './options.ts';
import { PodRuntime } from './pod-runtime.ts';
import type { ProcessRunner } from './process-runner.ts';

/** Maximum pods that are synced at once; a start costs a few files and a fork. */
const workers = 8;

export interface PodManagerOptions {
  readonly settings: NodeSettings;
  readonly folder: NodeFolder;
  readonly runner: ProcessRunner;
  readonly addresses: AddressPool;
  readonly pods: Store<Pod>;
  /** Called when a pod is gone and no longer uses the volumes of these claims. */
  readonly onReleased: (claimUids: Iterable<string>) => void;
}

/**
 * Runtimes of the pods of this node, at most one per name: the next pod of a name starts when
 * nothing of the previous pod remains.
 */
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

  /**
   * Removes the folders of pods that were deleted while the node did not run. The store must have
   * synced.
   */
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
