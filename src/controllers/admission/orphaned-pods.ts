import type { Stores } from '../caches.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/base/clock';
import type { Result } from '@conversation-operator/kube/controller';
import { isNotFound } from '@conversation-operator/kube/errors';
import { pods, type Pod } from '@conversation-operator/kube/core';
import type { PodCreations } from '../sandbox/pod-creations.ts';
import type { OrphanedSlot, SlotIndex } from './slot-index.ts';

export interface OrphanedPodsOptions {
  readonly client: KubeClient;
  readonly stores: Pick<Stores, 'pods'>;
  readonly podCreations: PodCreations;
  readonly clock: Clock;
  readonly index: SlotIndex;
}

/** Minimum time between two reads of a pod. */
const minIntervalMs = 500;
/**
 * Maximum time between them. The cache shows the deletion of a pod; reads are for a watch that has
 * fallen silent.
 */
const maxIntervalMs = 30_000;

interface LastRead {
  /** Time by the monotonic clock. */
  readonly at: number;
  readonly intervalMs: number;
}

const ownerOf = (pod: Pick<Pod, 'metadata'> | undefined): readonly string[] =>
  pod?.metadata.ownerReferences?.map(({ uid }) => uid) ?? [];

/**
 * The slots of deleted sandboxes whose pods may still run. Each slot is given back once a read of
 * the API server shows that the pod is gone. The cache of pods says when a read is due.
 */
export class OrphanedPods {
  readonly #options: OrphanedPodsOptions;
  readonly #reads = new Map<string, LastRead>();

  constructor(options: OrphanedPodsOptions) {
    this.#options = options;
  }

  /** The cache has lost a pod of this name: its next read is due at once. */
  podDeleted(namespace: string, podName: string): void {
    const key = `${namespace}/${podName}`;
    const last = this.#reads.get(key);
    if (last !== undefined) this.#reads.set(key, { ...last, intervalMs: minIntervalMs });
  }

  /** Reads a pod when that is due, and gives back the slots that wait for it. */
  async read(namespace: string, podName: string, signal: AbortSignal): Promise<Result> {
    const { index, clock, podCreations } = this.#options;
    const key = `${namespace}/${podName}`;
    const slots = index.orphanedSlots(namespace, podName);
    if (slots.length === 0) {
      this.#reads.delete(key);
      return undefined;
    }
    const now = clock.monotonic();
    const last = this.#reads.get(key);
    const dueInMs = last === undefined ? 0 : last.at + last.intervalMs - now;
    if (dueInMs > 0) return { requeueAfterMs: dueInMs };
    // Before the question: a creation that is still under way may be executed after the answer.
    const settled = slots.filter(({ sandboxUid }) => podCreations.unsettledMs(sandboxUid) === 0);
    if (settled.length === 0) return { requeueAfterMs: minIntervalMs };
    const isKnownToRun = last === undefined && this.#isCached(namespace, podName, slots);
    const intervalMs = isKnownToRun
      ? maxIntervalMs
      : Math.min(maxIntervalMs, 2 * (last?.intervalMs ?? minIntervalMs / 2));
    this.#reads.set(key, { at: now, intervalMs });
    if (!isKnownToRun) await this.#read(namespace, podName, settled, signal);
    return { requeueAfterMs: intervalMs };
  }

  #isCached(namespace: string, podName: string, slots: readonly OrphanedSlot[]): boolean {
    const owners = ownerOf(this.#options.stores.pods.get(namespace, podName));
    return slots.some(({ sandboxUid }) => owners.includes(sandboxUid));
  }

  async #read(
    namespace: string,
    podName: string,
    slots: readonly OrphanedSlot[],
    signal: AbortSignal,
  ): Promise<void> {
    const { client, index } = this.#options;
    let pod: Pod | undefined;
    try {
      pod = await client.get(pods, namespace, podName, { signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    const owners = ownerOf(pod);
    for (const slot of slots) if (!owners.includes(slot.sandboxUid)) index.removeOrphaned(slot);
  }
}
