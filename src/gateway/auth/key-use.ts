import { isoTime, type Timer } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isNotFound } from '@conversation-operator/kube/errors';
import type { Runtime } from '@conversation-operator/base/runtime';
import { apiKeys, type ApiKey } from '../../resources/api-key.ts';
import type { Cache } from '../lookup/cache.ts';

/** Minimum time between two writes of `lastUsedTime` for one key. */
const coarseMs = 60 * 60 * 1000;
/** Delay between two rounds of writes. Each round writes the uses since the previous round. */
const intervalMs = 60 * 1000;

export interface KeyUseOptions extends Pick<Runtime, 'clock' | 'logger'> {
  readonly client: Pick<KubeClient, 'mergePatch'>;
  readonly cache: Cache<ApiKey>;
  readonly namespace: string;
}

/**
 * Writes `status.lastUsedTime` of each ApiKey a minute after a use, but at most once an hour, even
 * if several replicas serve the key. No request waits for the write or fails because of it. The
 * patch names one field and no resourceVersion, so it conflicts with no other write.
 */
export class KeyUse {
  readonly #options: KeyUseOptions;
  readonly #used = new Set<string>();
  /** Time of this replica's last write, by key name, because the cache may not show it yet. */
  readonly #written = new Map<string, number>();
  #timer: Timer | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: KeyUseOptions) {
    this.#options = options;
  }

  seen(keyName: string): void {
    this.#used.add(keyName);
  }

  start(delayMs = intervalMs): void {
    this.#timer = this.#options.clock.after(delayMs, () => {
      this.#writing = this.#write();
    });
  }

  /** Discards the uses that are not written yet, and waits for a write in progress. */
  async stop(): Promise<void> {
    this.#used.clear();
    this.#timer?.cancel();
    await this.#writing;
    this.#timer?.cancel();
  }

  async #write(): Promise<void> {
    const { cache, namespace, logger } = this.#options;
    for (const name of this.#written.keys())
      if (cache.store.get(namespace, name) === undefined) this.#written.delete(name);
    try {
      for (const name of this.#used) await this.#writeOne(name);
      this.start();
    } catch (error) {
      // The next attempt, and the next warning, come an hour later: this record is not urgent.
      logger.warn('The use of API keys is not recorded', { error });
      this.start(coarseMs);
    } finally {
      this.#used.clear();
    }
  }

  async #writeOne(name: string): Promise<void> {
    const { client, cache, namespace, clock } = this.#options;
    const key = cache.store.get(namespace, name);
    if (key === undefined) return;
    const stored = Date.parse(key.status?.lastUsedTime ?? '');
    const last = Math.max(Number.isNaN(stored) ? 0 : stored, this.#written.get(name) ?? 0);
    if (clock.now() - last < coarseMs) return;
    this.#written.set(name, clock.now());
    try {
      await client.mergePatch(
        apiKeys,
        namespace,
        name,
        { status: { lastUsedTime: isoTime(clock) } },
        { subresource: 'status' },
      );
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
}
