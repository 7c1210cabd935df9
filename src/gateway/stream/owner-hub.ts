import { hash } from 'node:crypto';
import { every, type Timer } from '@conversation-operator/base/clock';
import type { Runtime } from '@conversation-operator/base/runtime';
import { eventText, type Batch, type StreamEvent } from './stream-events.ts';
import type { OwnRecord, OwnRecords, Subject, SubjectKind } from './own-records.ts';

/** Maximum streams that get a batch in one turn of the event loop. */
const streamsPerTurn = 25;
/** Delay between a change and its event, in which further changes are coalesced. */
const gatherMs = 250;
/** Minimum time between two records of the quota. */
const quotaMs = 1_000;
/** Delay between two checks of the quota record, which changes with time even without an event. */
const quotaAgeMs = 15_000;
/** Inverse of the maximum share of CPU time for the quota records of all `OwnerHub`s. */
const quotaShare = 20;

export interface Follower {
  /** Called with each batch, in order. */
  send(batch: Batch): void;
}

interface Shown {
  readonly id: string;
  /** Digest of the record's JSON if all streams have the same JSON, else undefined. */
  readonly digest: string | undefined;
}

export interface OwnerHubOptions extends Pick<Runtime, 'clock' | 'logger'> {
  readonly records: Pick<OwnRecords, 'owner' | 'recordOf' | 'quotaJson' | 'subjects'>;
  readonly recordsPerTurn: number;
  /** Number of `OwnerHub`s. All of them share the CPU time for quota records. */
  readonly hubs: () => number;
  /** Runs work at once and charges its time to the owner. */
  readonly charge: (owner: string, work: () => void) => void;
}

const keyOf = ({ kind, name }: Subject): string => `${kind}/${name}`;
const digestOf = (json: string): string => hash('sha1', json, 'base64');

/**
 * Builds each event once for all streams of one owner. `OwnerHubs` calls `mark` for each object
 * that may have changed, and `gatherMs` later the events of the latest states are built. The cost
 * of a change does not depend on the number of other conversations, except for the quota record.
 *
 * The class remembers the records that any stream may show. A snapshot and the events after it lead
 * to the same state, whenever the snapshot was built: if a snapshot already shows a change, the
 * event of the change is still sent.
 */
export class OwnerHub {
  readonly #options: OwnerHubOptions;
  readonly #followers = new Set<Follower>();
  readonly #changed = new Map<string, Subject>();
  readonly #shown = new Map<string, Shown>();
  #timer: Timer | undefined;
  #dueMs = 0;
  #quotaJson: string | undefined;
  #quotaChanged = false;
  #quotaAtMs = -Infinity;
  #quotaCostMs = 0;
  #quotaTimer: Timer | undefined;

  /** Number of the newest batch. */
  #sequence = 0;
  /** The batch that is being sent, and the batches that wait until all streams have it. */
  readonly #batches: Batch[] = [];

  constructor(options: OwnerHubOptions) {
    this.#options = options;
  }

  get owner(): string {
    return this.#options.records.owner;
  }

  get sequence(): number {
    return this.#sequence;
  }

  get recordsPerTurn(): number {
    return this.#options.recordsPerTurn;
  }

  get size(): number {
    return this.#followers.size;
  }

  join(follower: Follower): void {
    this.#followers.add(follower);
    if (this.#quotaChanged) this.#schedule(gatherMs);
    this.#quotaTimer ??= every(this.#options.clock, quotaAgeMs, () => this.markQuota());
  }

  leave(follower: Follower): void {
    this.#followers.delete(follower);
    if (this.#followers.size > 0) return;
    this.#quotaTimer?.cancel();
    this.#quotaTimer = undefined;
  }

  close(): void {
    this.#timer?.cancel();
    this.#quotaTimer?.cancel();
  }

  /** Schedules an event for an object that may have changed. */
  mark(kind: SubjectKind, name: string): void {
    const subject = { kind, name };
    this.#changed.set(keyOf(subject), subject);
    this.#schedule(gatherMs);
  }

  markQuota(): void {
    this.#quotaChanged = true;
    if (this.#followers.size > 0) this.#schedule(gatherMs);
  }

  /** Objects of a snapshot. A pending event is sent even if its object changes back. */
  subjects(): Iterable<Subject> {
    for (const key of this.#changed.keys()) this.#sendInAnyCase(key);
    return this.#options.records.subjects();
  }

  /** The record of a subject for a snapshot; undefined if the snapshot omits the subject. */
  show(subject: Subject): string | undefined {
    const key = keyOf(subject);
    const isChanged = this.#changed.has(key);
    if (isChanged) this.#sendInAnyCase(key);
    const record = this.#recordOf(subject);
    if (record === undefined || record.isOver) return undefined;
    const { id, json } = record;
    if (!this.#shown.has(key))
      this.#shown.set(key, { id, digest: isChanged ? undefined : digestOf(json) });
    return json;
  }

  /** The quota for a snapshot: that of the last event, if there is one. */
  showQuota(): string {
    return (this.#quotaJson ??= this.#presentQuota());
  }

  /**
   * Causes the next event of an object even if its state equals that of the last event. A snapshot
   * may have shown another state since then, or may have omitted the object.
   */
  #sendInAnyCase(key: string): void {
    const shown = this.#shown.get(key);
    if (shown !== undefined) this.#shown.set(key, { ...shown, digest: undefined });
  }

  #schedule(delayMs: number): void {
    const { clock } = this.#options;
    const dueMs = clock.monotonic() + delayMs;
    if (this.#timer !== undefined && this.#dueMs <= dueMs) return;
    this.#timer?.cancel();
    this.#dueMs = dueMs;
    this.#timer = clock.after(delayMs, () => {
      this.#timer = undefined;
      this.#options.charge(this.owner, () => this.#flush());
    });
  }

  #flush(): void {
    const events: StreamEvent[] = [];
    let turns = this.recordsPerTurn;
    for (const [key, subject] of this.#changed) {
      if (turns-- === 0) break;
      this.#changed.delete(key);
      events.push(...this.#eventsOf(key, subject));
    }
    const quotaDelayMs = this.#quotaDelayMs();
    if (this.#changed.size === 0 && quotaDelayMs === 0) events.push(...this.#quotaEvents());
    if (events.length > 0) this.#send(events);
    if (this.#changed.size > 0) this.#schedule(0);
    else if (quotaDelayMs !== undefined && quotaDelayMs > 0) this.#schedule(quotaDelayMs);
  }

  #send(events: readonly StreamEvent[]): void {
    const sequence = ++this.#sequence;
    const text = events.map(({ kind, json }) => eventText(sequence, kind, json)).join('');
    const kinds = events.map(({ kind }) => kind);
    this.#batches.push({ sequence, kinds, bytes: Buffer.from(text) });
    if (this.#batches.length === 1) this.#pass([...this.#followers]);
  }

  /**
   * Sends the first batch to at most `streamsPerTurn` streams in one turn of the event loop. The
   * next batch waits until all streams have the first one: a stream that leaves would move others
   * to an earlier turn, in which they would get batches out of order.
   */
  #pass(followers: readonly Follower[]): void {
    const [batch] = this.#batches;
    if (batch === undefined) return;
    for (const follower of followers.slice(0, streamsPerTurn)) follower.send(batch);
    let others = followers.slice(streamsPerTurn);
    if (others.length === 0) {
      this.#batches.shift();
      if (this.#batches.length === 0) return;
      others = [...this.#followers];
    }
    setImmediate(() => this.#options.charge(this.owner, () => this.#pass(others)));
  }

  #eventsOf(key: string, subject: Subject): readonly StreamEvent[] {
    const { kind } = subject;
    const shown = this.#shown.get(key);
    const record = this.#recordOf(subject);
    // A record that no stream shows needs no event.
    if (record === undefined || record.isOver) {
      if (shown === undefined) return [];
      this.#shown.delete(key);
      return record === undefined
        ? [{ kind: 'removed', json: JSON.stringify({ kind, id: shown.id }) }]
        : [{ kind, json: record.json }];
    }
    const { id, json } = record;
    const digest = digestOf(json);
    if (shown?.digest === digest) return [];
    this.#shown.set(key, { id, digest });
    return [{ kind, json }];
  }

  /** The record of a subject; undefined if there is none, or if it can not be built. */
  #recordOf(subject: Subject): OwnRecord | undefined {
    try {
      return this.#options.records.recordOf(subject);
    } catch (error) {
      const { kind, name } = subject;
      this.#options.logger.error('A record of a stream can not be made', { kind, name, error });
      return undefined;
    }
  }

  /** Time until the next quota record is built; undefined without a change or without a stream. */
  #quotaDelayMs(): number | undefined {
    if (!this.#quotaChanged || this.#followers.size === 0) return undefined;
    const { clock, hubs } = this.#options;
    const pauseMs = Math.max(quotaMs, this.#quotaCostMs * hubs() * quotaShare);
    return Math.max(0, this.#quotaAtMs + pauseMs - clock.monotonic());
  }

  #quotaEvents(): readonly StreamEvent[] {
    const json = this.#presentQuota();
    if (json === this.#quotaJson) return [];
    this.#quotaJson = json;
    return [{ kind: 'quota', json }];
  }

  #presentQuota(): string {
    const { clock, records, logger } = this.#options;
    this.#quotaChanged = false;
    this.#quotaAtMs = clock.monotonic();
    try {
      return records.quotaJson();
    } catch (error) {
      logger.error('The quota of a stream can not be made', { owner: this.owner, error });
      return 'null';
    } finally {
      this.#quotaCostMs = clock.monotonic() - this.#quotaAtMs;
    }
  }
}
