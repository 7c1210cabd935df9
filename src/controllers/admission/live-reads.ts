import type { Stores } from '../caches.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/base/clock';
import type { Result } from '@conversation-operator/kube/controller';
import { isNotFound } from '@conversation-operator/kube/errors';
import { conversationQuotas, type ConversationQuota } from '../../resources/conversation-quota.ts';
import { isNewerVersion } from '@conversation-operator/kube/object';
import { sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import type { SlotIndex } from './slot-index.ts';

export interface LiveReadsOptions {
  readonly client: KubeClient;
  readonly stores: Pick<Stores, 'sandboxes' | 'quotas'>;
  readonly clock: Clock;
  readonly index: SlotIndex;
  /** Called for an object that has to be read, because a watch may never report its changes. */
  readonly onUnseen: (object: Sandbox | ConversationQuota) => void;
  /** Called for a deleted quota that no cache has shown. */
  readonly onQuotaDeleted: (quota: ConversationQuota) => void;
}

/** Delay before the next read of the same object. */
const rereadDelayMs = 500;

/**
 * LiveReads asks the API server for what no watch reports: the outcome of a write that had no
 * answer, and whether an object still exists that the caches have never shown.
 */
export class LiveReads {
  readonly #options: LiveReadsOptions;
  /** Objects that the API server has shown and the caches have not, by uid. */
  readonly #unseen = new Map<string, Sandbox | ConversationQuota>();

  constructor(options: LiveReadsOptions) {
    this.#options = options;
  }

  /** Has an object of the API server read again until the caches show it too. */
  watch(object: Sandbox | ConversationQuota): void {
    if (this.#isCached(object)) return;
    const { uid } = object.metadata;
    const isWatched = this.#unseen.has(uid);
    this.#unseen.set(uid, object);
    // A watched object is read again after its delay; another request would be served at once,
    // without an end.
    if (!isWatched) this.#options.onUnseen(object);
  }

  /** Takes over the version of a sandbox that the API server has. */
  async refresh(sandbox: Sandbox, signal: AbortSignal): Promise<void> {
    const { client, index } = this.#options;
    const { namespace, name, uid } = sandbox.metadata;
    let stored: Sandbox | undefined;
    try {
      stored = await client.get(sandboxes, namespace, name, { signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    if (stored?.metadata.uid !== uid) index.forget(index.sandbox(uid) ?? sandbox);
    if (stored === undefined || sandboxes.accepts?.(stored) === false) return;
    index.observe(stored);
    this.watch(stored);
  }

  async read(uid: string, signal: AbortSignal): Promise<Result> {
    const { index, clock } = this.#options;
    const object = this.#unseen.get(uid);
    if (object !== undefined && this.#isCached(object)) this.#unseen.delete(uid);
    if (object !== undefined && !isSandbox(object)) return this.#readQuota(object, signal);
    const assumed = index.assumed(uid);
    const sandbox = assumed?.sandbox ?? (this.#unseen.has(uid) ? object : undefined);
    if (sandbox === undefined) return undefined;
    // The deadline is compared before the read: a write may be executed between the answer and the
    // deadline.
    const over = assumed !== undefined && clock.monotonic() >= assumed.until;
    await this.refresh(sandbox, signal);
    const known = index.sandbox(uid);
    if (known === undefined) this.#unseen.delete(uid);
    else if (over && !isNewerVersion(known, sandbox)) index.forgetAssumed(uid);
    return this.#unseen.has(uid) || index.assumed(uid) !== undefined
      ? { requeueAfterMs: rereadDelayMs }
      : undefined;
  }

  /**
   * A cache that has never shown a quota may never report its deletion, so the API server is asked
   * until the cache shows the quota.
   */
  async #readQuota(quota: ConversationQuota, signal: AbortSignal): Promise<Result> {
    const { namespace, name, uid } = quota.metadata;
    if (!this.#unseen.has(uid)) return undefined;
    const stored = await this.#options.client
      .get(conversationQuotas, namespace, name, { signal })
      .catch((error: unknown) => {
        if (isNotFound(error)) return undefined;
        throw error;
      });
    if (stored?.metadata.uid === uid) return { requeueAfterMs: rereadDelayMs };
    this.#unseen.delete(uid);
    this.#options.onQuotaDeleted(quota);
    return undefined;
  }

  #isCached(object: Sandbox | ConversationQuota): boolean {
    const { stores } = this.#options;
    const { namespace, name, uid } = object.metadata;
    return (
      (isSandbox(object) ? stores.sandboxes : stores.quotas).get(namespace, name)?.metadata.uid ===
      uid
    );
  }
}

const isSandbox = (object: Sandbox | ConversationQuota): object is Sandbox =>
  object.kind === sandboxes.kind;
