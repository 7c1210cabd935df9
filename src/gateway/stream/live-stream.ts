import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import type { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import type { SlowReaderGuard } from '@conversation-operator/http/limits/slow-clients';
import { every, type Timer, type Clock } from '@conversation-operator/base/clock';
import type { Runtime } from '@conversation-operator/base/runtime';
import type { Metrics } from '../../observability/metrics.ts';
import type { OwnerHubs, LiveState } from './live-state.ts';
import type { Follower, OwnerHub } from './owner-hub.ts';
import type { Shares } from '@conversation-operator/base/shares';
import {
  closedText,
  eventText,
  heartbeatText,
  openingText,
  type CloseCode,
  type EventKind,
  streamQuery,
  streamResponse,
  type Batch,
} from './stream-events.ts';
import type { SubjectKind } from './own-records.ts';
import type { KeyRing } from '../auth/key-ring.ts';
import type { OpenStreams } from '@conversation-operator/http/server/listen';
import type { Logger } from '@conversation-operator/base/logger';
import { type Route, endpoints } from '../http/route.ts';
import { unavailable } from '../errors/common-problems.ts';

const { get } = endpoints('stream');

interface StreamNeeds {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly scheduler: FairScheduler;
  readonly slowReaders: SlowReaderGuard;
  readonly streams: OpenStreams;
  readonly ring: KeyRing;
  readonly places: { readonly liveStreams: Shares; readonly snapshots: Shares };
}

export const streamRoute = (
  needs: StreamNeeds,
  { hubs, staleness }: Pick<LiveState, 'hubs' | 'staleness'>,
): Route =>
  get('/api/v1/stream', 'streamState', {
    summary:
      'Conversations, start tasks, sandboxes and the quota, and each of their changes as it happens',
    query: streamQuery,
    responses: { 200: streamResponse },
    mediaType: 'text/event-stream',
    problems: ['share-exceeded'],
    handle: ({ principal, owner, response }) => {
      const { clock, logger, scheduler, slowReaders, metrics, streams, ring, places } = needs;
      const { keyName, keyUid } = principal;
      if (response.req.method === 'HEAD') {
        response.setHeader('content-type', contentType).end();
        return 'sent';
      }
      if (staleness.isStale) throw unavailable();
      const forgets = [places.liveStreams.take({ owner, sandbox: keyUid })];
      const stream = new LiveStream({
        owner,
        response,
        hubs,
        clock,
        logger,
        scheduler,
        slowReaders,
        metrics,
        snapshots: places.snapshots,
        ended: () => {
          for (const forget of forgets) forget();
        },
      });
      stream.begin();
      // A shutdown that has begun, or a key that has become invalid, closes the stream at once.
      forgets.push(streams.add(() => stream.close('shutdown')));
      forgets.push(ring.untilEnd(keyName, keyUid, () => stream.close('key-invalid')));
      forgets.push(staleness.onStale(() => stream.close('stale')));
      if (stream.isOver) for (const forget of forgets) forget();
      return 'sent';
    },
  });

interface SnapshotPart {
  readonly json: string;
  readonly isLast: boolean;
}

/** A part ends as soon as its records have this number of characters. */
const maxPartLength = 65_536;

/**
 * The records of an owner in parts of limited size. Each part is built when the caller asks for it.
 * An object that is created meanwhile is in no part, but a later event contains it.
 */
function* snapshotParts(
  hub: Pick<OwnerHub, 'subjects' | 'show' | 'showQuota' | 'recordsPerTurn'>,
): Generator<SnapshotPart, void, undefined> {
  let part = new Part();
  for (const subject of hub.subjects()) {
    const json = hub.show(subject);
    if (json !== undefined) part.add(subject.kind, json);
    if (part.size < hub.recordsPerTurn && part.length < maxPartLength) continue;
    yield { json: part.text('null', false), isLast: false };
    part = new Part();
  }
  yield { json: part.text(hub.showQuota(), true), isLast: true };
}

class Part {
  readonly #records: Readonly<Record<SubjectKind, string[]>> = {
    conversation: [],
    start_task: [],
    sandbox: [],
  };
  size = 0;
  length = 0;

  add(kind: SubjectKind, json: string): void {
    this.#records[kind].push(json);
    this.size += 1;
    this.length += json.length;
  }

  text(quotaJson: string, isLast: boolean): string {
    const { conversation, start_task, sandbox } = this.#records;
    return `{"conversations":[${conversation.join()}],"start_tasks":[${start_task.join()}],"sandboxes":[${sandbox.join()}],"quota":${quotaJson},"last":${isLast}}`;
  }
}

export const contentType = 'text/event-stream; charset=utf-8';
/** Delay between two heartbeat comments, which is less than the idle timeout of proxies. */
const heartbeatMs = 15_000;
/** Maximum time in which a client with pending data reads nothing. */
const stallMs = 30_000;
/** Maximum age of a stream, after which clients reconnect, possibly to a newer replica. */
const maxAgeMs = 3_600_000;
/** Maximum time in which a client may read the rest of a closed stream. */
const lastBytesMs = 5_000;

/** The part of a response that a stream uses. */
export type StreamResponse = Writable & {
  statusCode: number;
  setHeader(name: string, value: string): unknown;
};

export interface LiveStreamOptions extends Pick<Runtime, 'clock' | 'logger'> {
  readonly owner: string;
  readonly response: StreamResponse;
  readonly hubs: OwnerHubs;
  /** Semaphore of concurrent snapshots. */
  readonly snapshots: Shares;
  readonly scheduler: Pick<FairScheduler, 'run' | 'chargeBytes'>;
  readonly slowReaders: Pick<SlowReaderGuard, 'add'>;
  readonly metrics: Pick<Metrics, 'openStreams' | 'streamEvents' | 'closedStreams'>;
  /** Called once, when the stream is over. */
  readonly ended: () => void;
}

/**
 * One open stream: a snapshot, then the batches of the owner's `OwnerHub`. The stream writes only
 * as fast as the client reads, and disconnects a client with too many pending bytes.
 */
export class LiveStream implements Follower {
  readonly #options: LiveStreamOptions;
  readonly #hub: OwnerHub;
  /** Number of the newest batch whose changes the snapshot has; undefined before the snapshot. */
  #sequence: number | undefined;
  readonly #waiting: Batch[] = [];
  #waitingBytes = 0;
  readonly #over = new AbortController();
  #hasSnapshot = false;
  #stall: Timer | undefined;
  readonly #heartbeat: Timer;
  readonly #age: Timer;

  constructor(options: LiveStreamOptions) {
    const { response, hubs, owner, clock, metrics } = options;
    this.#options = options;
    this.#hub = hubs.join(owner, this);
    this.#heartbeat = every(clock, heartbeatMs, () => this.#beat());
    this.#age = clock.after(maxAgeMs, () => this.close('max-age'));
    metrics.openStreams.inc({});
    response.on('drain', () => this.#drained());
    response.once('close', () => {
      this.#stall?.cancel();
      this.#end('client-gone');
    });
  }

  get isOver(): boolean {
    return this.#over.signal.aborted;
  }

  begin(): void {
    const { response, logger } = this.#options;
    response.statusCode = 200;
    response.setHeader('content-type', contentType);
    response.setHeader('cache-control', 'no-store');
    response.setHeader('x-accel-buffering', 'no');
    this.#write(openingText);
    void this.#sendSnapshot().catch((error: unknown) => {
      if (this.isOver) return;
      logger.error('The snapshot of a stream can not be sent', { error });
      response.destroy();
    });
  }

  send(batch: Batch): void {
    if (this.isOver || this.#sequence === undefined || batch.sequence <= this.#sequence) return;
    this.#waiting.push(batch);
    this.#waitingBytes += batch.bytes.length;
    this.#advance();
    const isFull = this.#waitingBytes > this.#options.hubs.maxBytes;
    if (this.#waiting.length > 1 && isFull) this.close('slow-reader');
  }

  #advance(): void {
    while (this.#hasSnapshot && !this.#isFull && !this.isOver) {
      const batch = this.#waiting.shift();
      if (batch === undefined) return;
      this.#waitingBytes -= batch.bytes.length;
      this.#write(batch.bytes, batch.kinds);
    }
  }

  close(code: CloseCode): void {
    if (this.isOver) return;
    const { response, clock } = this.#options;
    this.#end(code);
    response.end(closedText(code));
    const timer = clock.after(lastBytesMs, () => response.destroy());
    response.once('close', () => timer.cancel());
  }

  /** Sends the snapshot part by part, as fast as the client reads. */
  async #sendSnapshot(): Promise<void> {
    const { snapshots, owner } = this.#options;
    const leave = await snapshots.wait({ owner }, { signal: this.#over.signal });
    try {
      await this.#sendParts();
    } finally {
      leave();
    }
    this.#hasSnapshot = true;
    this.#advance();
  }

  async #sendParts(): Promise<void> {
    const { scheduler, owner } = this.#options;
    const { sequence } = this.#hub;
    this.#sequence = sequence;
    const parts = snapshotParts(this.#hub);
    const next = async () => (await scheduler.run(owner, () => parts.next())).value;
    for (let part = await next(); part !== undefined && !this.isOver; part = await next()) {
      // A Buffer that waits for the client takes no memory of the JavaScript heap.
      this.#write(Buffer.from(eventText(sequence, 'snapshot', part.json)), ['snapshot']);
      scheduler.chargeBytes(owner, part.json.length);
      await (this.#isFull ? this.#roomForMore() : setImmediate());
    }
  }

  async #roomForMore(): Promise<void> {
    const { response } = this.#options;
    // The end of the stream aborts the wait.
    await once(response, 'drain', { signal: this.#over.signal }).catch(() => undefined);
  }

  get #isFull(): boolean {
    return this.#options.response.writableNeedDrain;
  }

  #write(text: string | Buffer, kinds: readonly EventKind[] = []): void {
    const { response, owner, clock, metrics, slowReaders } = this.#options;
    response.write(text);
    for (const kind of kinds) metrics.streamEvents.inc({ kind });
    if (this.#isFull) this.#stall ??= clock.after(stallMs, () => this.close('slow-reader'));
    slowReaders.add(response, owner, () => {
      this.close('slow-reader');
      response.destroy();
    });
  }

  #drained(): void {
    this.#stall?.cancel();
    this.#stall = undefined;
    this.#advance();
  }

  #beat(): void {
    if (!this.#isFull) this.#write(heartbeatText);
  }

  #end(code: CloseCode | 'client-gone'): void {
    if (this.isOver) return;
    this.#over.abort();
    const { hubs, metrics, ended } = this.#options;
    this.#stall?.cancel();
    this.#heartbeat.cancel();
    this.#age.cancel();
    hubs.leave(this.#hub, this);
    metrics.openStreams.dec({});
    metrics.closedStreams.inc({ code });
    ended();
  }
}
