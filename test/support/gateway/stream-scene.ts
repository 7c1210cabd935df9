import { Writable } from 'node:stream';
import { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import { SlowReaderGuard } from '@conversation-operator/http/limits/slow-clients';
import { gatewayIndexers } from '../../../src/gateway/lookup/cache.ts';
import { ResourceLookup } from '../../../src/gateway/lookup/resource-lookup.ts';
import { StorageCaps } from '../../../src/gateway/lookup/storage-caps.ts';
import { nothingExposed } from './nothing-exposed.ts';
import { LiveStream } from '../../../src/gateway/stream/live-stream.ts';
import type { StreamLimits } from '../../../src/gateway/stream/stream-events.ts';
import { OwnRecords } from '../../../src/gateway/stream/own-records.ts';
import { OwnerHubs } from '../../../src/gateway/stream/live-state.ts';
import { newPool } from '../../../src/gateway/limits/pools.ts';
import { quotaRecord } from '../../../src/gateway/quota/quota.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import type { ApiKey } from '../../../src/resources/api-key.ts';
import type { CachedConversation } from '../../../src/resources/cached-conversation.ts';
import type { ConversationQuota } from '../../../src/resources/conversation-quota.ts';
import type { Handover } from '../../../src/resources/handover.ts';
import type { CachedUsageRecord } from '../../../src/resources/usage-record.ts';
import type { OwnerSettings } from '../../../src/resources/owner-settings.ts';
import type { SandboxTemplate } from '../../../src/resources/sandbox-template.ts';
import type { Sandbox } from '../../../src/resources/sandbox.ts';
import { FakeKubeClient } from '../fake-kube-client.ts';
import { recordingLogger } from '../recording-logger.ts';
import { TestCache } from '../test-cache.ts';
import { VirtualClock } from '../virtual-clock.ts';
import { StreamState } from './stream-state.ts';

const namespace = 'default';
const metrics = createMetrics();
/** Turns of the event loop in which everything is written that tests write at once. */
const maxTurns = 60;

/** A response whose client reads when the test says so. */
class TestResponse extends Writable {
  statusCode = 0;
  isReading = true;
  readonly #state: StreamState;
  #waiting: (() => void) | undefined;
  #unread: Buffer | undefined;

  constructor(state: StreamState) {
    super({ highWaterMark: 1024 });
    this.#state = state;
  }

  setHeader(): void {
    // No test reads the headers of this response.
  }

  override _write(chunk: Buffer, _encoding: string, callback: () => void): void {
    this.#unread = chunk;
    this.#waiting = () => {
      this.#unread = undefined;
      this.#state.read(chunk.toString());
      callback();
    };
    if (this.isReading) this.#take();
  }

  /** The client has read a part of what was on its way. */
  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    const { length = 0 } = this.#unread ?? {};
    this.#state.read(this.#unread?.subarray(0, (length * 3) / 4).toString() ?? '');
    callback(error);
  }

  /** Lets the client read, or not. */
  read(isReading: boolean): void {
    this.isReading = isReading;
    if (isReading) this.#take();
  }

  #take(): void {
    const take = this.#waiting;
    this.#waiting = undefined;
    if (take !== undefined) setImmediate(() => (this.destroyed ? undefined : take()));
  }
}

/** Streams of several owners on caches that a test fills, without a server. */
export class StreamScene {
  readonly clock = new VirtualClock();
  readonly #log = recordingLogger();
  readonly caches = {
    conversations: new TestCache<CachedConversation>(gatewayIndexers.conversations),
    sandboxes: new TestCache<Sandbox>(gatewayIndexers.sandboxes),
    quotas: new TestCache<ConversationQuota>(),
    templates: new TestCache<SandboxTemplate>(),
    apiKeys: new TestCache<ApiKey>(gatewayIndexers.apiKeys),
    ownerSettings: new TestCache<OwnerSettings>(),
    handovers: new TestCache<Handover>(),
    usageRecords: new TestCache<CachedUsageRecord>(),
  };
  readonly lookup = new ResourceLookup({
    client: new FakeKubeClient(),
    namespace,
    caches: this.caches,
  });
  readonly hubs: OwnerHubs;
  readonly #scheduler = new FairScheduler({ clock: this.clock });
  readonly #slowReaders = new SlowReaderGuard();
  readonly #caps = new StorageCaps({
    caches: this.caches,
    namespace,
    quotas: () => this.lookup.quotas(),
  });
  readonly #snapshots = newPool('snapshots', this.clock);

  constructor(limits: Partial<StreamLimits> = {}) {
    this.hubs = new OwnerHubs({
      caches: this.caches,
      namespace,
      lookup: this.lookup,
      recordsOf: (owner) => this.recordsOf(owner),
      clock: this.clock,
      logger: this.#log.logger,
      charge: (owner, work) => this.#scheduler.now(owner, work),
      limits,
    });
    this.#caps.open();
    this.hubs.open();
  }

  get errors(): number {
    return this.#log.lines.filter(({ level }) => level === 'error').length;
  }

  recordsOf(owner: string): OwnRecords {
    const { lookup, clock } = this;
    const reads = { lookup, clock, caps: this.#caps };
    return new OwnRecords({
      owner,
      lookup,
      exposure: nothingExposed,
      quota: (whose) => quotaRecord(reads, whose),
    });
  }

  /** The records that a client of an owner has to show. */
  contentsOf(owner: string): StreamState['contents'] {
    const state = new StreamState();
    const records = this.recordsOf(owner);
    for (const subject of records.subjects()) {
      const record = records.recordOf(subject);
      if (record !== undefined && !record.isOver)
        state.read(`event: ${subject.kind}\ndata: ${record.json}\n\n`);
    }
    state.read(`event: quota\ndata: ${records.quotaJson()}\n\n`);
    return state.contents;
  }

  connect(owner: string, state = new StreamState()) {
    const response = new TestResponse(state);
    state.connect();
    const { clock, hubs } = this;
    const { logger } = this.#log;
    const stream = new LiveStream({
      owner,
      response,
      hubs,
      clock,
      logger,
      metrics,
      snapshots: this.#snapshots,
      scheduler: this.#scheduler,
      slowReaders: this.#slowReaders,
      ended: () => undefined,
    });
    stream.begin();
    return { state, response, stream };
  }

  /** Lets time pass, and the streams write and their clients read all that they can. */
  async pass(ms: number): Promise<void> {
    await this.#settle();
    await this.clock.advance(ms);
    await this.#settle();
  }

  async #settle(): Promise<void> {
    for (let turn = 0; turn < maxTurns; turn++) await this.clock.settle();
  }

  close(): void {
    this.hubs.close();
    this.#caps.close();
  }
}
