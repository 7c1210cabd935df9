import { TokenBucket } from '@conversation-operator/base/token-bucket';
import type { Logger } from '@conversation-operator/base/logger';
import { kubeEvents, type KubeEvent } from './core.ts';
import { apiVersionOf, type KubeObject, type NewObject } from './object.ts';
import type { KubeClient } from './client.ts';
import type { Clock } from '@conversation-operator/base/clock';
import { isNotFound } from './errors.ts';
import { Fifo } from './fifo.ts';
import { LRUCache } from 'lru-cache';
import { Shares, type Release } from '@conversation-operator/base/shares';

export interface EventDetails {
  readonly type: 'Normal' | 'Warning';
  /** Reason in UpperCamelCase, from a closed set. */
  readonly reason: string;
  /** Text for people, safe for every reader of Events in the namespace. */
  readonly message: string;
  /**
   * Gives the Event a rate limit apart from the other Events about the object, so that these never
   * crowd it out. Users rely on essential Events. Default false.
   */
  readonly essential?: boolean;
}

export interface EventRecorderOptions {
  readonly client: KubeClient;
  /** Name of the component that reports. */
  readonly component: string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  /**
   * Returns the share of the buffer that an Event about the object uses. Default: all Events share
   * one buffer.
   */
  readonly shareOf?: (object: KubeObject) => string;
}

interface Recorded extends EventDetails {
  readonly object: Pick<KubeObject, 'apiVersion' | 'kind' | 'metadata'>;
  readonly at: number;
  readonly release: Release;
}

interface Written {
  readonly namespace: string;
  readonly name: string;
  readonly count: number;
}

/** Maximum Events that wait to be written, of all shares and of one share. */
const maxBuffered = 1000;
const maxBufferedPerShare = 250;
/** Maximum objects, and maximum distinct Events, that the recorder remembers. */
const maxRemembered = 4096;
const maxMessageLength = 1024;
/**
 * Limits of client-go's spam filter: 25 Events about one object at once, and one more every five
 * minutes.
 */
const burst = 25;
const refillMs = 300_000;

/**
 * Reports through Events what happened to an object. A repeated Event increments the count of the
 * stored Event. No caller waits for the recorder or fails because of it: the recorder drops Events
 * that can't be written or exceed a limit.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #waiting = new Fifo<Recorded>();
  readonly #buffer: Shares;
  readonly #written = new LRUCache<string, Written>({ max: maxRemembered });
  readonly #tokens = new LRUCache<string, TokenBucket>({ max: maxRemembered });
  readonly #abort = new AbortController();
  #writing: Promise<void> | undefined;
  #closed = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#buffer = new Shares({
      total: maxBuffered,
      perOwner: options.shareOf === undefined ? maxBuffered : maxBufferedPerShare,
      refuse: () => new Error('the buffer of events is full'),
    });
  }

  record(object: KubeObject, { type, reason, message, essential = false }: EventDetails): void {
    const { clock, logger, shareOf } = this.#options;
    const { uid, name, namespace } = object.metadata;
    const holder = { owner: shareOf?.(object) ?? '' };
    if (
      this.#closed ||
      !this.#buffer.hasRoom(holder) ||
      !this.#takeToken(essential ? `${uid}/essential` : uid)
    ) {
      logger.debug('Event is dropped', { reason, kind: object.kind, namespace, name });
      return;
    }
    const { apiVersion, kind, metadata } = object;
    this.#waiting.push({
      object: { apiVersion, kind, metadata },
      type,
      reason,
      message: message.slice(0, maxMessageLength),
      at: clock.now(),
      release: this.#buffer.take(holder),
    });
    this.#writing ??= this.#writeAll();
  }

  /** Writes the waiting Events for at most `graceMs`, and accepts no further Events. */
  async close(graceMs = 2000): Promise<void> {
    this.#closed = true;
    const timer = this.#options.clock.after(graceMs, () => {
      this.#waiting.clear();
      this.#abort.abort(new Error('the event recorder was closed'));
    });
    try {
      await this.#writing;
    } finally {
      timer.cancel();
    }
  }

  async #writeAll(): Promise<void> {
    // Writing starts in a later turn, so that `record` itself never calls the client.
    await Promise.resolve();
    for (let event = this.#waiting.shift(); event !== undefined; event = this.#waiting.shift()) {
      try {
        await this.#write(event);
      } catch (error) {
        const { reason, object } = event;
        this.#options.logger.debug('Event was not written', {
          reason,
          kind: object.kind,
          name: object.metadata.name,
          error,
        });
      } finally {
        event.release();
      }
    }
    this.#writing = undefined;
  }

  async #write(event: Recorded): Promise<void> {
    const { client } = this.#options;
    const { signal } = this.#abort;
    const key = [event.object.metadata.uid, event.type, event.reason, event.message].join('\n');
    const before = this.#written.get(key);
    if (before !== undefined) {
      const count = before.count + 1;
      try {
        await client.mergePatch(
          kubeEvents,
          before.namespace,
          before.name,
          { count, lastTimestamp: wholeSeconds(event.at) },
          { signal },
        );
        this.#written.set(key, { ...before, count });
        return;
      } catch (error) {
        // API servers delete Events after an hour.
        if (!isNotFound(error)) throw error;
      }
    }
    const created = this.#eventFor(event);
    await client.create(kubeEvents, created, { metadataOnly: true, signal });
    this.#written.set(key, {
      namespace: created.metadata.namespace,
      name: created.metadata.name,
      count: 1,
    });
  }

  #eventFor(event: Recorded): NewObject<KubeEvent> & {
    readonly metadata: { readonly namespace: string; readonly name: string };
  } {
    const { component, random } = this.#options;
    const { apiVersion, kind, metadata } = event.object;
    const at = wholeSeconds(event.at);
    const suffix = Math.floor(random() * 2 ** 48)
      .toString(16)
      .padStart(12, '0');
    return {
      apiVersion: apiVersionOf(kubeEvents),
      kind: kubeEvents.kind,
      metadata: {
        namespace: metadata.namespace ?? 'default',
        name: `${metadata.name.slice(0, 240)}.${suffix}`,
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
      firstTimestamp: at,
      lastTimestamp: at,
      count: 1,
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

/** Returns a Kubernetes Time: RFC 3339 without fractions. */
const wholeSeconds = (at: number): string => new Date(at).toISOString().replace(/\.\d+Z$/, 'Z');
