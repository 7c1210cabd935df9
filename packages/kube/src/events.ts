import { TokenBucket } from '@conversation-operator/base/token-bucket';
import type { Runtime } from '@conversation-operator/base/runtime';
import { kubeEvents, type KubeEvent } from './core.ts';
import { apiVersionOf, timestampOf, type KubeObject, type NewObject } from './object.ts';
import type { KubeClient } from './client.ts';
import { isAlreadyExists, isNotFound } from './errors.ts';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { Shares, type Release } from '@conversation-operator/base/shares';

export interface EventDetails {
  readonly type: 'Normal' | 'Warning';
  /** Reason in UpperCamelCase, one of a fixed set. */
  readonly reason: string;
  /** Text for people. Everyone who may read Events in the namespace can read it. */
  readonly message: string;
  /**
   * Counts the Event against a second rate limit of its object, which only essential Events use.
   * Default: false.
   */
  readonly essential?: boolean;
  /**
   * Name of the Event, in place of a random one. An Event that exists under this name is this one,
   * whichever process has written it. Default: a new Event for each process.
   */
  readonly name?: string | undefined;
}

export interface EventRecorderOptions extends Runtime {
  readonly client: KubeClient;
  readonly component: string;
  /** Returns the group of an object, for the limit `maxBufferedPerShare`. Default: one group. */
  readonly shareOf?: (object: KubeObject) => string;
}

interface Recorded extends EventDetails {
  readonly object: Pick<KubeObject, 'apiVersion' | 'kind' | 'metadata'>;
  readonly firstAt: number;
  readonly release: Release;
  lastAt: number;
  count: number;
}

interface Written {
  readonly namespace: string;
  readonly name: string;
  readonly count: number;
}

/** Maximum waiting Events: of all groups of `shareOf` together, and of each single group. */
const maxBuffered = 2000;
const maxBufferedPerShare = 500;
/** Maximum concurrent writes. With only one, an API server accepts about 20 Events a second. */
const maxWriters = 4;
/** Maximum entries of `#written` and of `#tokens`. The least recently used ones are dropped. */
const maxRemembered = 4096;
const maxMessageLength = 1024;
/** Limits per object, as in client-go: 25 Events at once, and one more every five minutes. */
const burst = 25;
const refillMs = 300_000;

/**
 * Writes Events about objects. A repeated Event increments the count of the first one. `record`
 * never waits and never throws: Events that exceed a limit or can't be written are lost.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  /** Events that wait to be written, by `keyOf`, in the order of arrival. */
  readonly #waiting = new Map<string, Recorded>();
  readonly #underWay = new Set<string>();
  readonly #buffer: Shares;
  readonly #written = recentlyUsed<Written>(maxRemembered);
  readonly #tokens = recentlyUsed<TokenBucket>(maxRemembered);
  readonly #abort = new AbortController();
  readonly #writers = new Set<Promise<void>>();
  #closed = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#buffer = new Shares({
      total: maxBuffered,
      perOwner: options.shareOf === undefined ? maxBuffered : maxBufferedPerShare,
      refuse: () => new Error('the buffer of events is full'),
    });
  }

  record(object: KubeObject, { essential = false, ...event }: EventDetails): void {
    const { type, reason, message, name: eventName } = event;
    const { clock, logger, shareOf } = this.#options;
    const { apiVersion, kind, metadata } = object;
    const { uid, name, namespace } = metadata;
    const holder = { owner: shareOf?.(object) ?? '' };
    const details = { type, reason, message: message.slice(0, maxMessageLength), name: eventName };
    const key = keyOf(uid, details);
    const waiting = this.#waiting.get(key);
    if (
      this.#closed ||
      (waiting === undefined && !this.#buffer.hasRoom(holder)) ||
      !this.#takeToken(essential ? `${uid}/essential` : uid)
    ) {
      logger.debug('Event is dropped', { reason, kind, namespace, name });
      return;
    }
    const at = clock.now();
    if (waiting !== undefined) {
      waiting.lastAt = at;
      waiting.count++;
      return;
    }
    this.#waiting.set(key, {
      ...details,
      object: { apiVersion, kind, metadata },
      firstAt: at,
      lastAt: at,
      count: 1,
      release: this.#buffer.take(holder),
    });
    this.#startWriter();
  }

  /** Writes the waiting Events for at most `graceMs`, and accepts no further Events. */
  async close(graceMs = 2000): Promise<void> {
    this.#closed = true;
    const timer = this.#options.clock.after(graceMs, () => {
      this.#waiting.clear();
      this.#abort.abort(new Error('the event recorder was closed'));
    });
    try {
      await Promise.all(this.#writers);
    } finally {
      timer.cancel();
    }
  }

  #startWriter(): void {
    if (this.#writers.size >= maxWriters) return;
    const writer = this.#writeAll().finally(() => this.#writers.delete(writer));
    this.#writers.add(writer);
  }

  async #writeAll(): Promise<void> {
    // Writing starts in a microtask, so that `record` itself never calls the client.
    await Promise.resolve();
    for (let key = this.#nextKey(); key !== undefined; key = this.#nextKey()) {
      const event = this.#waiting.get(key);
      if (event === undefined) return;
      this.#waiting.delete(key);
      this.#underWay.add(key);
      try {
        await this.#write(key, event);
      } catch (error) {
        const { reason, object } = event;
        this.#options.logger.debug('Event was not written', {
          reason,
          kind: object.kind,
          name: object.metadata.name,
          error,
        });
      } finally {
        this.#underWay.delete(key);
        event.release();
      }
    }
  }

  /** Returns the first key without a writer, as two writers would create one Event twice. */
  #nextKey(): string | undefined {
    for (const key of this.#waiting.keys()) if (!this.#underWay.has(key)) return key;
    return undefined;
  }

  async #write(key: string, event: Recorded): Promise<void> {
    const { client } = this.#options;
    const { signal } = this.#abort;
    const before = this.#written.get(key);
    if (before !== undefined) {
      const count = before.count + event.count;
      try {
        await client.mergePatch(
          kubeEvents,
          before.namespace,
          before.name,
          { count, lastTimestamp: timestampOf(event.lastAt) },
          { signal },
        );
        this.#written.set(key, { ...before, count });
        return;
      } catch (error) {
        // The API server has deleted the stored Event, by default an hour after its last write.
        if (!isNotFound(error)) throw error;
      }
    }
    const created = this.#eventFor(event);
    try {
      await client.create(kubeEvents, created, { metadataOnly: true, signal });
    } catch (error) {
      if (event.name === undefined || !isAlreadyExists(error)) throw error;
    }
    const { namespace, name } = created.metadata;
    this.#written.set(key, { namespace, name, count: event.count });
  }

  #eventFor(
    event: Recorded,
  ): NewObject<KubeEvent> & {
    readonly metadata: { readonly namespace: string; readonly name: string };
  } {
    const { component, random } = this.#options;
    const { apiVersion, kind, metadata } = event.object;
    const suffix = Math.floor(random() * 2 ** 48)
      .toString(16)
      .padStart(12, '0');
    return {
      apiVersion: apiVersionOf(kubeEvents),
      kind: kubeEvents.kind,
      metadata: {
        namespace: metadata.namespace ?? 'default',
        name: event.name ?? `${metadata.name.slice(0, 240)}.${suffix}`,
      },
      involvedObject: {
        apiVersion,
        kind,
        name: metadata.name,
        uid: metadata.uid,
        resourceVersion: metadata.resourceVersion,
        ...(metadata.namespace === undefined ? {} : { namespace: metadata.namespace }),
      },
      type: event.type,
      reason: event.reason,
      message: event.message,
      source: { component },
      reportingComponent: component,
      reportingInstance: component,
      firstTimestamp: timestampOf(event.firstAt),
      lastTimestamp: timestampOf(event.lastAt),
      count: event.count,
    };
  }

  #takeToken(key: string): boolean {
    const now = this.#options.clock.monotonic();
    const bucket = this.#tokens.get(key) ?? new TokenBucket({ burst, intervalMs: refillMs });
    this.#tokens.set(key, bucket);
    const isReady = bucket.readyAt <= now;
    if (isReady) bucket.take(now);
    return isReady;
  }
}

/** Returns the key of an Event. An Event with the same key as an earlier one is its repetition. */
const keyOf = (uid: string, { type, reason, message }: EventDetails): string =>
  [uid, type, reason, message].join('\n');
