import { type SubjectKind, subjectKinds } from './own-records.ts';
import { z } from 'zod';
import { conversationSchema } from '../presenters/conversation.ts';
import { quotaSchema } from '../quota/quota-record.ts';
import { sandboxSchema } from '../presenters/sandbox.ts';
import { startTaskSchema } from '../presenters/start-task.ts';

/** Why the gateway closes a stream. */
const closeCodes = ['key-invalid', 'slow-reader', 'stale', 'shutdown', 'max-age'] as const;
export type CloseCode = (typeof closeCodes)[number];

export const snapshotSchema = z.object({
  conversations: z.array(conversationSchema),
  start_tasks: z.array(startTaskSchema).describe('Starts that are under way or ended in ERROR.'),
  sandboxes: z.array(sandboxSchema),
  quota: quotaSchema.nullable().describe('Null in every part but the last.'),
  last: z.boolean(),
});
export const removedSchema = z.object({ kind: z.enum(subjectKinds), id: z.string() });
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

export const streamQuery = z.object({
  last_event_id: z.string().optional().describe('Ignored: a stream begins with a snapshot.'),
});

/** Kinds of events. The data are records of GET endpoints, except for `removed` and `snapshot`. */
export type EventKind = SubjectKind | 'snapshot' | 'quota' | 'removed';

/** Delay before a client reconnects, in milliseconds. */
const retryMs = 2000;

export const openingText = `retry: ${retryMs}\n\n`;
/** A comment, which clients ignore and proxies count as traffic. */
export const heartbeatText = ': \n\n';

/** The text of an event. JSON has no line breaks, so the data are one line. */
export const eventText = (sequence: number, kind: EventKind, json: string): string =>
  `id: ${sequence}\nevent: ${kind}\ndata: ${json}\n\n`;

export const closedText = (code: CloseCode): string =>
  `event: closed\ndata: ${JSON.stringify({ code })}\n\n`;

export interface StreamLimits {
  /** Maximum bytes of the batches that wait for a client; the newest one is always accepted. */
  readonly maxBytes: number;
  /** Maximum bytes of the batches that wait for clients of all owners, who have equal shares. */
  readonly totalBytes: number;
  /** Maximum records that are built in one turn of the event loop, and in one event. */
  readonly recordsPerTurn: number;
}

const mebibyte = 1_048_576;
export const defaultStreamLimits: StreamLimits = {
  maxBytes: mebibyte,
  totalBytes: 64 * mebibyte,
  recordsPerTurn: 200,
};

export interface StreamEvent {
  readonly kind: EventKind;
  readonly json: string;
}

/** Events of one owner, which every stream of the owner sends together. */
export interface Batch {
  readonly sequence: number;
  readonly kinds: readonly EventKind[];
  readonly bytes: Buffer;
}
