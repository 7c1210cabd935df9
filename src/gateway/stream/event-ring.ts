import { type SubjectKind, subjectKinds } from './own-records.ts';
import { z } from 'zod';
import { conversationSchema } from '../presenters/conversation.ts';
import { quotaSchema } from '../quota/quota-record.ts';
import { sandboxSchema } from '../presenters/sandbox.ts';
import { startTaskSchema } from '../presenters/start-task.ts';

/** Why the gateway closes a stream. */
const closeCodes = ['key-invalid', 'slow-reader', 'stale', 'shutdown', 'max-age'] as const;
export type CloseCode = (typeof closeCodes)[number];

/** The data of a `snapshot` event. */
export const snapshotSchema = z.object({
  conversations: z.array(conversationSchema),
  start_tasks: z.array(startTaskSchema).describe('Starts that are under way or ended in ERROR.'),
  sandboxes: z.array(sandboxSchema),
  quota: quotaSchema.nullable().describe('Null in every part but the last.'),
  last: z.boolean(),
});
/** The data of a `removed` event. */
export const removedSchema = z.object({ kind: z.enum(subjectKinds), id: z.string() });
/** The data of a `closed` event. */
export const closedSchema = z.object({ code: z.enum(closeCodes) });

const event = <E extends string, D extends z.ZodType>(name: E, data: D) =>
  z.object({ event: z.literal(name), id: z.string(), data });

/** The events of the stream, for the OpenAPI document. */
export const streamEventSchema = z.union([
  event('snapshot', snapshotSchema),
  event('conversation', conversationSchema),
  event('start_task', startTaskSchema),
  event('sandbox', sandboxSchema),
  event('quota', quotaSchema),
  event('removed', removedSchema),
  z.object({ event: z.literal('closed'), data: closedSchema }),
]);

export const streamResponse = z
  .string()
  .meta({ contentMediaType: 'text/event-stream' })
  .describe(
    'Events, each with the fields id, event and data; data is JSON as in the schema StreamEvent.',
  );

export const lastEventIdQuery = z.object({
  last_event_id: z
    .string()
    .optional()
    .describe('As the header Last-Event-ID, for clients that can not set headers.'),
});
export const lastEventIdHeaders = z.object({
  'last-event-id': z
    .string()
    .optional()
    .describe(
      'Id of the last event that the client has. Where the replica still has everything since, the stream begins with what is missing, else with a snapshot.',
    ),
});

/** The events of a stream. Each has the data of a read, `removed` and `snapshot` aside. */
export type EventKind = SubjectKind | 'snapshot' | 'quota' | 'removed';

/** Delay before a client connects again, in milliseconds. */
const retryMs = 2000;

export const openingText = `retry: ${retryMs}\n\n`;
/** A comment, which clients ignore and proxies count as traffic. */
export const heartbeatText = ': \n\n';

/** The text of an event. JSON has no line breaks, so the data are one line. */
export const eventText = (id: string, kind: EventKind, json: string): string =>
  `id: ${id}\nevent: ${kind}\ndata: ${json}\n\n`;

/** The last event of a stream. The event has no id, so that the client keeps its last one. */
export const closedText = (code: CloseCode): string =>
  `event: closed\ndata: ${JSON.stringify({ code })}\n\n`;

/** Limits of the events that the streams of one owner share. */
export interface RingLimits {
  /** Maximum bytes of the batches that a ring keeps; the newest one is always kept. */
  readonly maxBytes: number;
  /** Maximum number of batches that a ring keeps. */
  readonly maxBatches: number;
}

export interface EventMemory extends RingLimits {
  /** Maximum bytes of the events of all owners together; each has the same part of them. */
  readonly totalBytes: number;
  /** Maximum records that are made in one turn of the event loop, and in one event. */
  readonly recordsPerTurn: number;
}

const mebibyte = 1_048_576;
export const defaultEventMemory: EventMemory = {
  maxBytes: mebibyte,
  maxBatches: 1024,
  totalBytes: 64 * mebibyte,
  recordsPerTurn: 200,
};

export interface StreamEvent {
  readonly kind: EventKind;
  readonly json: string;
}

/** Events that were sent together, as every stream of the owner sends them. */
export interface Batch {
  readonly sequence: number;
  readonly kinds: readonly EventKind[];
  readonly bytes: Buffer;
}

/** The sequence of clients that do not know everything up to any batch. */
const nothingKnown = 0;

/**
 * The newest events of one owner, for streams that are behind and for clients that connect again.
 * The id of an event says up to which batch a client that has this event knows everything: the last
 * event of a batch has the sequence of this batch, the others have that of the batch before. A
 * client that has part of a batch therefore gets the whole batch again.
 */
export class EventRing {
  readonly #token: string;
  readonly #batches = new Map<number, Batch>();
  #limits: RingLimits;
  #last = nothingKnown + 1;
  #bytes = 0;

  /** @param token Differs for each ring of any process, and has no dash. */
  constructor(token: string, limits: RingLimits) {
    this.#token = token;
    this.#limits = limits;
  }

  /** Sequence of the newest batch. */
  get last(): number {
    return this.#last;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Id of an event after which a client knows everything up to this sequence. */
  idOf(sequence: number): string {
    return `${this.#token}-${sequence}`;
  }

  /** Id of an event after which a client that connects again needs a snapshot. */
  get idOfNothing(): string {
    return this.idOf(nothingKnown);
  }

  /**
   * The sequence of an id whose later batches are all here; undefined where the id is malformed, of
   * another ring, or too old.
   */
  sequenceOf(id: string): number | undefined {
    const [token, digits = '', ...others] = id.split('-');
    if (token !== this.#token || others.length > 0 || !/^[1-9]\d{0,14}$/.test(digits))
      return undefined;
    const sequence = Number(digits);
    return this.holdsAllAfter(sequence) ? sequence : undefined;
  }

  /** Whether every batch after this sequence is here. */
  holdsAllAfter(sequence: number): boolean {
    return sequence <= this.#last && sequence >= this.#last - this.#batches.size;
  }

  after(sequence: number): Batch | undefined {
    return this.#batches.get(sequence + 1);
  }

  append(events: readonly StreamEvent[]): void {
    if (events.length === 0) return;
    const sequence = this.#last + 1;
    const texts = events.map(({ kind, json }, index) =>
      eventText(this.idOf(index === events.length - 1 ? sequence : this.#last), kind, json),
    );
    const bytes = Buffer.from(texts.join(''));
    this.#batches.set(sequence, { sequence, kinds: events.map(({ kind }) => kind), bytes });
    this.#last = sequence;
    this.#bytes += bytes.length;
    this.#trim();
  }

  /** Replaces the limits. */
  limit(limits: RingLimits): void {
    this.#limits = limits;
    this.#trim();
  }

  #trim(): void {
    const { maxBytes, maxBatches } = this.#limits;
    for (const [sequence, { bytes }] of this.#batches) {
      const { size } = this.#batches;
      if (size <= 1 || (size <= maxBatches && this.#bytes <= maxBytes)) return;
      this.#batches.delete(sequence);
      this.#bytes -= bytes.length;
    }
  }
}
