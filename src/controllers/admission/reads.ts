import type { CommonNeeds } from '../controller-spec.ts';
import { sleep } from '@conversation-operator/base/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { pods } from '@conversation-operator/kube/core';
import { isNewerVersion, type ObjectMeta } from '@conversation-operator/kube/object';
import type { CachedPod } from '../../resources/cached-core.ts';
import { conversationQuotas, type ConversationQuota } from '../../resources/conversation-quota.ts';
import {
  managedBySelector,
  ownerAnnotation,
  sandboxes,
  type Sandbox,
} from '../../resources/sandbox.ts';
import { slotTaken } from '../../status/sandbox-phase.ts';
import type { Stores } from '../caches.ts';
import type { PodCreations } from '../sandbox/pod-creations.ts';
import { storedObject } from '../stored-object.ts';
import type { AdmissionCache, AdmissionChannels } from './cache.ts';

export interface AdmissionReadsOptions extends CommonNeeds {
  readonly stores: Pick<Stores, 'sandboxes' | 'quotas' | 'pods'>;
  readonly cache: AdmissionCache;
  readonly podCreations: Pick<PodCreations, 'unsettledMs'>;
  /** Namespace to read; absent: all namespaces. */
  readonly namespace?: string | undefined;
  readonly channels: AdmissionChannels;
}

const seedRetryMs = 1_000;
/** Delay before the same object is read again, and minimum time between two reads of a pod. */
const rereadDelayMs = 500;
/** Maximum time between two reads of a pod, for the case that a watch reports nothing. */
const maxPodIntervalMs = 30_000;

interface LastRead {
  readonly at: number;
  readonly intervalMs: number;
}

type Known = Sandbox | ConversationQuota;

const isSandbox = (object: Known): object is Sandbox => object.kind === sandboxes.kind;

const ownersOf = (pod: Pick<CachedPod, 'metadata'> | undefined): readonly string[] =>
  pod?.metadata.ownerReferences?.map(({ uid }) => uid) ?? [];

/**
 * Reads from the API server what no watch reports: the last writes of the previous leader, the
 * outcome of a write without a response, whether an object still exists that the caches have never
 * shown, and whether the pod of a deleted sandbox is gone.
 */
export class AdmissionReads {
  readonly #options: AdmissionReadsOptions;
  /** Objects that the API server has shown and the caches have not, by uid. */
  readonly #unseen = new Map<string, Known>();
  /** Last read of the pod of deleted sandboxes, by namespace and name. */
  readonly #podReads = new Map<string, LastRead>();

  constructor(options: AdmissionReadsOptions) {
    this.#options = options;
  }

  /**
   * Lists the objects of the API server, because the watches may lack the last writes of the
   * previous leader. The operator calls this once, after the previous leader has stopped and before
   * the first decision.
   *
   * @returns A function that adds the objects to the cache. The caller connects the watches before
   * it calls the function. An object whose deletion a watch reports in between is read again.
   */
  async seed(signal?: AbortSignal): Promise<() => void> {
    const { logger, clock } = this.#options;
    for (;;) {
      try {
        return await this.#list(signal);
      } catch (error) {
        signal?.throwIfAborted();
        logger.warn('The state of the quotas could not be read', { error });
        await sleep(clock, seedRetryMs, signal);
      }
    }
  }

  async #list(signal: AbortSignal | undefined): Promise<() => void> {
    const { client, cache, namespace } = this.#options;
    const scope = {
      ...(namespace === undefined ? {} : { namespace }),
      ...(signal === undefined ? {} : { signal }),
    };
    const identities = { ...scope, metadataOnly: true };
    // No operator creates pods or writes statuses now, so the lists may be read in any order. Each
    // listed pod was created after its sandbox: a sandbox that is not listed was deleted.
    const [quotas, present, left] = await Promise.all([
      client.list(conversationQuotas, scope),
      client
        .listMapped(sandboxes, ({ metadata }) => metadata, identities)
        .then(({ items }) => Promise.all(items.map((metadata) => this.#newest(metadata, signal)))),
      client.listMapped(pods, ({ metadata }) => metadata, {
        ...identities,
        labelSelector: managedBySelector,
      }),
    ]);
    return () => {
      for (const quota of quotas.items) {
        if (conversationQuotas.accepts?.(quota) === false) continue;
        cache.observeQuota(quota);
        this.#watch(quota);
      }
      for (const sandbox of present) {
        if (sandbox === undefined) continue;
        cache.observe(sandbox);
        this.#watch(sandbox);
      }
      for (const pod of left.items) this.#seedPod(pod);
    };
  }

  /**
   * The listed version of a sandbox, or a newer one. The list contains only metadata, because whole
   * objects would delay the first decision. The object comes from the cache, or from the API server
   * if the cache has another version. Undefined for a deleted sandbox and for an unknown schema.
   */
  async #newest(metadata: ObjectMeta, signal?: AbortSignal): Promise<Sandbox | undefined> {
    const { client, stores } = this.#options;
    const cached = stores.sandboxes.get(metadata.namespace ?? '', metadata.name);
    const { uid, resourceVersion } = cached?.metadata ?? {};
    if (uid === metadata.uid && resourceVersion === metadata.resourceVersion) return cached;
    const stored = await storedObject({ client, signal }, sandboxes, { metadata });
    return sandboxes.accepts?.(stored) === false ? undefined : stored;
  }

  /** Counts the slot of a pod whose sandbox is deleted or has no slot. */
  #seedPod({ namespace = '', name, annotations, ownerReferences, creationTimestamp }: ObjectMeta) {
    const { cache } = this.#options;
    const owner = ownerReferences?.find(({ kind }) => kind === sandboxes.kind);
    if (owner === undefined) return;
    const { apiVersion, kind, uid } = owner;
    const known = cache.sandbox(uid);
    if (known !== undefined && slotTaken(known)) return;
    cache.addOrphaned(
      known ?? {
        apiVersion,
        kind,
        metadata: { name, namespace, uid, resourceVersion: '0', generation: 1, creationTimestamp },
        spec: { owner: annotations?.[ownerAnnotation] ?? '', templateName: '', replicas: 0 },
      },
    );
  }

  /** Requests reads of an object until the caches show the object too. */
  #watch(object: Known): void {
    if (this.#isCached(object)) return;
    const { uid, namespace } = object.metadata;
    this.#unseen.set(uid, object);
    const request = { namespace, name: `object/${uid}` };
    this.#options.channels.lookup.enqueue(request, rereadDelayMs);
  }

  /** Counts a sandbox that this process has just created and that the caches do not show yet. */
  created(sandbox: Sandbox): void {
    this.#options.cache.observe(sandbox);
    this.#watch(sandbox);
  }

  /** The sandboxes that the API server has shown and the caches have not. */
  unseen(): readonly Sandbox[] {
    return [...this.#unseen.values()].filter(isSandbox).filter((each) => !this.#isCached(each));
  }

  #isCached(object: Known): boolean {
    const { stores } = this.#options;
    const { namespace, name, uid } = object.metadata;
    const store = isSandbox(object) ? stores.sandboxes : stores.quotas;
    return store.get(namespace, name)?.metadata.uid === uid;
  }

  /** Handles a request of the queue `lookup`: reads an object or a pod, and requests a decision. */
  async read({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const [kind = '', key = ''] = name.split('/');
    const result =
      kind === 'pod' ? await this.readPod(namespace, key, signal) : await this.#read(key, signal);
    this.#options.channels.admission.enqueue({ namespace, name: '' });
    return result;
  }

  async refresh(sandbox: Sandbox, signal: AbortSignal): Promise<void> {
    try {
      await this.#readObject(sandbox, signal);
    } finally {
      // The API server has rejected the write, so its assumed outcome is wrong in any case.
      this.#options.cache.notExecuted(sandbox);
    }
  }

  async #read(uid: string, signal: AbortSignal): Promise<Result> {
    const { cache, clock } = this.#options;
    const unseen = this.#unseen.get(uid);
    if (unseen !== undefined && this.#isCached(unseen)) this.#unseen.delete(uid);
    const assumed = cache.assumed(uid);
    const object = assumed?.sandbox ?? this.#unseen.get(uid);
    if (object === undefined) return undefined;
    // The deadline is checked before the read, because a write may be executed after the read.
    const isOver = assumed !== undefined && clock.monotonic() >= assumed.until;
    await this.#readObject(object, signal);
    const known = cache.sandbox(uid);
    if (isOver && known !== undefined && !isNewerVersion(known, assumed.sandbox))
      cache.notExecuted(known);
    return this.#unseen.has(uid) || cache.assumed(uid) !== undefined
      ? { requeueAfterMs: rereadDelayMs }
      : undefined;
  }

  /**
   * Stores the API server's version of an object, or removes a deleted object. A cache that has
   * never shown an object may never report its deletion.
   */
  async #readObject(object: Known, signal: AbortSignal): Promise<void> {
    const { client, cache } = this.#options;
    const { uid } = object.metadata;
    const resource = isSandbox(object) ? sandboxes : conversationQuotas;
    const stored: Known | undefined = await storedObject<Known>(
      { client, signal },
      resource,
      object,
    );
    if (stored !== undefined) {
      if (resource.accepts?.(stored) === false) return;
      if (isSandbox(stored)) cache.observe(stored);
      else cache.observeQuota(stored);
      this.#watch(stored);
      return;
    }
    this.#unseen.delete(uid);
    if (isSandbox(object)) cache.forget(cache.sandbox(uid) ?? object);
    else cache.forgetQuota(object);
  }

  /** Makes the next read of a deleted pod due at once, if the pod keeps a slot taken. */
  podDeleted({ metadata: { namespace = '', name } }: CachedPod): void {
    const { cache, channels } = this.#options;
    if (cache.orphanedBy(namespace, name).length === 0) return;
    const last = this.#podReads.get(`${namespace}/${name}`);
    if (last !== undefined)
      this.#podReads.set(`${namespace}/${name}`, { ...last, intervalMs: rereadDelayMs });
    channels.lookup.enqueue({ namespace, name: `pod/${name}` });
  }

  /**
   * Frees the slots of deleted sandboxes once the API server has no pod of them. The first call
   * sends no read if the pod cache still shows their pod.
   */
  async readPod(namespace: string, name: string, signal: AbortSignal): Promise<Result> {
    const { client, cache, clock, podCreations, stores } = this.#options;
    const key = `${namespace}/${name}`;
    const orphaned = cache.orphanedBy(namespace, name);
    if (orphaned.length === 0) {
      this.#podReads.delete(key);
      return undefined;
    }
    const now = clock.monotonic();
    const last = this.#podReads.get(key);
    const dueInMs = last === undefined ? 0 : last.at + last.intervalMs - now;
    if (dueInMs > 0) return { requeueAfterMs: dueInMs };
    // This is checked before the read, because a pod in creation may appear right after the read.
    const settled = orphaned.filter(({ metadata }) => podCreations.unsettledMs(metadata.uid) === 0);
    if (settled.length === 0) return { requeueAfterMs: rereadDelayMs };
    const cachedOwners = last === undefined ? ownersOf(stores.pods.get(namespace, name)) : [];
    const isKnownToRun = orphaned.some(({ metadata }) => cachedOwners.includes(metadata.uid));
    const intervalMs = isKnownToRun
      ? maxPodIntervalMs
      : Math.min(maxPodIntervalMs, last === undefined ? rereadDelayMs : 2 * last.intervalMs);
    this.#podReads.set(key, { at: now, intervalMs });
    if (!isKnownToRun) {
      const owners = ownersOf(
        await storedObject({ client, signal }, pods, { metadata: { namespace, name } }),
      );
      for (const sandbox of settled)
        if (!owners.includes(sandbox.metadata.uid)) cache.removeOrphaned(sandbox);
    }
    return { requeueAfterMs: intervalMs };
  }
}
