import { sessionReferenceOf } from '../../agent/keys.ts';
import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { ApiKey } from '../../resources/api-key.ts';
import type { Cache } from '../lookup/cache.ts';
import { chainOf, makersOf, type KeyChain } from './key-chain.ts';

/** Maximum delay until the expiry of a key is checked again: the clock of the day may be set. */
const recheckMs = 10_000;

/** A key that is valid now. */
export interface ValidKey {
  readonly key: ApiKey;
  readonly chain: KeyChain;
}

/** The API keys of one namespace, from the cache alone. */
export class KeyRing {
  readonly #cache: Cache<ApiKey>;
  readonly #namespace: string;
  readonly #clock: Clock;
  readonly #listeners = new Set<(uid: string) => void>();
  readonly #awaited = new Map<string, Set<() => void>>();
  #remove: (() => void) | undefined;

  constructor(options: {
    readonly cache: Cache<ApiKey>;
    readonly namespace: string;
    readonly clock: Clock;
  }) {
    this.#cache = options.cache;
    this.#namespace = options.namespace;
    this.#clock = options.clock;
  }

  open(): void {
    const changed = (uid: string) => {
      for (const listener of this.#listeners) listener(uid);
    };
    this.#remove ??= this.#cache.addHandler({
      added: ({ metadata }) => {
        if (this.#awaited.size === 0) return;
        for (const resolve of this.#awaited.get(sessionReferenceOf(metadata.uid)) ?? []) resolve();
      },
      updated: ({ metadata }, old) => {
        // The status alone, which says when a key was last used, decides nothing.
        if (
          metadata.generation !== old.metadata.generation ||
          metadata.deletionTimestamp !== undefined
        )
          changed(metadata.uid);
      },
      deleted: ({ metadata }) => changed(metadata.uid),
    });
  }

  close(): void {
    this.#remove?.();
    this.#remove = undefined;
  }

  /** The valid key of this SHA-256 that `accepts` takes. */
  byHash(sha256: string, accepts: (key: ApiKey) => boolean): ValidKey | undefined {
    return this.#valid(this.#cache.store.byIndex('sha256', sha256), accepts);
  }

  /** The valid key of this name and uid. */
  byName(name: string, uid: string): ValidKey | undefined {
    const key = this.#find(name);
    return this.#valid(key === undefined ? [] : [key], ({ metadata }) => metadata.uid === uid);
  }

  /** The valid key that a session key refers to. */
  byReference(reference: string): ValidKey | undefined {
    return this.#valid(this.#cache.store.byIndex('sessionReference', reference), () => true);
  }

  /** Whether a key that this one depends on is gone, so that this one is about to be deleted. */
  isOrphan(key: ApiKey): boolean {
    return !makersOf(key, this.#find).exist;
  }

  /** Whether a key ends with the key of this uid. */
  dependsOn(key: ApiKey, uid: string): boolean {
    return makersOf(key, this.#find).uids.includes(uid);
  }

  /** Calls with the uid of each key that changes or goes, and so may be valid no longer. */
  onChange(listener: (uid: string) => void): void {
    this.#listeners.add(listener);
  }

  /**
   * Calls `ended` once the key of this name and uid is valid no longer, at once where that is so
   * now. Returns the remover.
   */
  untilEnd(name: string, uid: string, ended: () => void): () => void {
    let chain: KeyChain | undefined;
    let timer: Timer | undefined;
    const remove = () => {
      timer?.cancel();
      this.#listeners.delete(changed);
    };
    const check = () => {
      timer?.cancel();
      const key = this.#find(name);
      const nowMs = this.#clock.now();
      chain = key?.metadata.uid === uid ? chainOf(key, this.#find, nowMs) : undefined;
      if (chain === undefined) {
        remove();
        ended();
      } else if (chain.expiresAtMs !== Infinity) {
        timer = this.#clock.after(Math.min(chain.expiresAtMs - nowMs, recheckMs), check);
      }
    };
    const changed = (changedUid: string) => {
      if (chain?.uids.includes(changedUid) === true) check();
    };
    this.#listeners.add(changed);
    check();
    return remove;
  }

  /**
   * Waits until the cache has the key that a session key refers to, which another replica may have
   * seen before; at most `timeoutMs`.
   */
  appears(reference: string, timeoutMs: number): Promise<void> {
    if (this.#cache.store.byIndex('sessionReference', reference).length > 0)
      return Promise.resolve();
    return new Promise((resolve) => {
      const waiting = this.#awaited.get(reference) ?? new Set();
      const end = () => {
        waiting.delete(end);
        if (waiting.size === 0 && this.#awaited.get(reference) === waiting)
          this.#awaited.delete(reference);
        timer.cancel();
        resolve();
      };
      this.#awaited.set(reference, waiting.add(end));
      const timer = this.#clock.after(timeoutMs, end);
    });
  }

  readonly #find = (name: string): ApiKey | undefined =>
    this.#cache.store.get(this.#namespace, name);

  #valid(candidates: readonly ApiKey[], accepts: (key: ApiKey) => boolean): ValidKey | undefined {
    for (const key of candidates) {
      if (key.metadata.namespace !== this.#namespace || !accepts(key)) continue;
      const chain = chainOf(key, this.#find, this.#clock.now());
      if (chain !== undefined) return { key, chain };
    }
    return undefined;
  }
}
