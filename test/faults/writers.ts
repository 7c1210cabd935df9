import { setTimeout as wait } from 'node:timers/promises';
import type { KubeClient } from '@conversation-operator/kube/client';
import { ApiError, TransportError } from '@conversation-operator/kube/errors';
import { configMaps } from '@conversation-operator/kube/core';
import { apiVersion } from '../../src/resources/group.ts';
import { sandboxes } from '../../src/resources/sandbox.ts';
import type { Rng } from './rng.ts';

export interface WritersOptions {
  /** Straight to the server. */
  readonly client: KubeClient;
  readonly namespace: string;
  readonly rng: Rng;
}

export const colorLabel = 'color';
const names = Array.from({ length: 12 }, (_, index) => `object-${index}`);
const finalizer = 'example.com/test';

/**
 * Creates, changes, deletes and creates again, a few objects under few names, so that versions and
 * uids change all the time.
 */
export class Writers {
  readonly #options: WritersOptions;
  readonly #idle: (() => void)[] = [];
  #running: Promise<void>[] = [];
  #paused = false;
  #stopped = false;
  /** Writes that the server has acknowledged. */
  writes = 0;

  constructor(options: WritersOptions) {
    this.#options = options;
  }

  start(count: number): void {
    this.#running = Array.from({ length: count }, () => this.#run());
  }

  /** Resolves when no write is under way. */
  async pause(): Promise<void> {
    this.#paused = true;
    const running = this.#running.length;
    while (this.#idle.length < running) await wait(1);
  }

  resume(): void {
    this.#paused = false;
    for (const wake of this.#idle.splice(0)) wake();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.resume();
    await Promise.all(this.#running);
  }

  async #run(): Promise<void> {
    const { rng } = this.#options;
    for (;;) {
      if (this.#paused) await new Promise<void>((resolve) => this.#idle.push(resolve));
      if (this.#stopped) return;
      try {
        await this.#write();
        this.writes++;
      } catch (error) {
        // Taken by another writer, gone meanwhile, or the server is just being killed: what counts
        // is what is there in the end.
        if (!(error instanceof ApiError || error instanceof TransportError)) throw error;
      }
      await wait(rng.between(0, 12));
    }
  }

  #write(): Promise<unknown> {
    const { client, namespace, rng } = this.#options;
    const name = rng.pick(names);
    const finalizers = rng.chance(0.1) ? { finalizers: [finalizer] } : {};
    const metadata = {
      namespace,
      name,
      labels: { [colorLabel]: rng.pick(['red', 'blue']) },
      ...finalizers,
    };
    const replicas = rng.pick([0, 1]);
    const filler = 'x'.repeat(rng.between(0, 2000));
    switch (
      rng.pick(['create', 'create', 'change', 'change', 'change', 'unlock', 'delete', 'recreate'])
    ) {
      case 'create':
        return rng.chance(0.5)
          ? client.create(sandboxes, {
              apiVersion,
              kind: 'Sandbox',
              metadata,
              spec: { owner: 'alice', templateName: 'default', replicas },
            })
          : client.create(configMaps, {
              apiVersion: 'v1',
              kind: 'ConfigMap',
              metadata,
              data: { filler },
            });
      case 'change':
        return rng.chance(0.5)
          ? client.mergePatch(sandboxes, namespace, name, {
              metadata: { labels: metadata.labels },
              spec: { replicas },
            })
          : client.mergePatch(configMaps, namespace, name, {
              metadata: { labels: metadata.labels },
              data: { filler },
            });
      case 'unlock':
        return rng.chance(0.5)
          ? client.mergePatch(sandboxes, namespace, name, { metadata: { finalizers: null } })
          : client.mergePatch(configMaps, namespace, name, { metadata: { finalizers: null } });
      case 'delete':
        return rng.chance(0.5)
          ? client.delete(sandboxes, namespace, name)
          : client.delete(configMaps, namespace, name);
      default:
        return this.#recreate(metadata, replicas);
    }
  }

  /** The same name with another uid, as fast as can be. */
  async #recreate(
    metadata: { readonly name: string; readonly namespace: string },
    replicas: number,
  ): Promise<void> {
    const { client } = this.#options;
    await client.delete(sandboxes, metadata.namespace, metadata.name);
    await client.create(sandboxes, {
      apiVersion,
      kind: 'Sandbox',
      metadata,
      spec: { owner: 'alice', templateName: 'default', replicas },
    });
  }
}
