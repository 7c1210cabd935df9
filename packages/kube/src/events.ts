import type { Logger } from './logger.ts';
import { kubeEvents, type KubeEvent } from './core.ts';
import { apiVersionOf, type KubeObject, type NewObject } from './object.ts';
import type { KubeClient } from './client.ts';
import type { Clock } from './clock.ts';
import { isNotFound } from './errors.ts';
import { Fifo } from './fifo.ts';
import { LruMap } from './lru-map.ts';
import { Shares, type Release } from './shares.ts';

export interface EventDetails {
  readonly type: 'Normal' | 'Warning';
  /** UpperCamelCase, from a closed set. */
  readonly reason: string;
  /** For people; safe to show to whoever may read events in the namespace. */
  readonly message: string;
  /** Counts apart from the other events about the object, so that these leave room for it: for what users rely on. Default false. */
  readonly essential?: boolean;
}

export interface EventRecorderOptions {
  readonly client: KubeClient;
  /** Who reports. */
  readonly component: string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  /** Whose share of the buffer an Event about the object takes. Default: all Events share one buffer. */
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

interface Tokens {
  readonly left: number;
  readonly at: number;
}

/** Maximum Events that wait to be written: of all shares, and of one. */
const maxBuffered = 1000;
const maxBufferedPerShare = 250;
/** Of objects and of distinct events, so many are remembered. */
const maxRemembered = 4096;
const maxMessageLength = 1024;
/** client-go's spam filter: so many at once about one object, and one more every five minutes. */
const burst = 25;
const refillMs = 300_000;

/**
 * Tells people through Events what happened to an object. An event that repeats is counted up instead of written again.
 * Nothing waits for it and nothing fails because of it: what can't be written, or is too much, is dropped.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #waiting = new Fifo<Recorded>();
  readonly #buffer: Shares;
  readonly #written = new LruMap<string, Written>(maxRemembered);
  readonly #tokens = new LruMap<string, Tokens>(maxRemembered);
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
    if (this.#closed || !this.#buffer.hasRoom(holder) || !this.#takeToken(essential ? `${uid}/essential` : uid)) {
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

  /** Writes what waits, for at most `graceMs`, and takes nothing more. */
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
    // A turn later, so that nothing of this happens inside `record`.
    await Promise.resolve();
    for (let event = this.#waiting.shift(); event !== undefined; event = this.#waiting.shift()) {
      try {
        await this.#write(event);
      } catch (error) {
        const { reason, object } = event;
        this.#options.logger.debug('Event was not written', { reason, kind: object.kind, name: object.metadata.name, error });
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
        await client.mergePatch(kubeEvents, before.namespace, before.name, { count, lastTimestamp: wholeSeconds(event.at) }, { signal });
        this.#written.set(key, { ...before, count });
        return;
      } catch (error) {
        // API servers delete events after an hour.
        if (!isNotFound(error)) throw error;
      }
    }
    const created = this.#eventFor(event);
    await client.create(kubeEvents, created, { signal });
    this.#written.set(key, { namespace: created.metadata.namespace, name: created.metadata.name, count: 1 });
  }

  #eventFor(event: Recorded): NewObject<KubeEvent> & { readonly metadata: { readonly namespace: string; readonly name: string } } {
    const { component, random } = this.#options;
    const { apiVersion, kind, metadata } = event.object;
    const at = wholeSeconds(event.at);
    const suffix = Math.floor(random() * 2 ** 48)
      .toString(16)
      .padStart(12, '0');
    return {
      apiVersion: apiVersionOf(kubeEvents),
      kind: kubeEvents.kind,
      metadata: { namespace: metadata.namespace ?? 'default', name: `${metadata.name.slice(0, 240)}.${suffix}` },
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
    const before = this.#tokens.get(key) ?? { left: burst, at: now };
    const left = Math.min(burst, before.left + (now - before.at) / refillMs);
    const taken = left >= 1;
    this.#tokens.set(key, { left: taken ? left - 1 : left, at: now });
    return taken;
  }
}

/** A Kubernetes Time: RFC 3339 without fractions. */
const wholeSeconds = (at: number): string => new Date(at).toISOString().replace(/\.\d+Z$/, 'Z');
