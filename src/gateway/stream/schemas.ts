import { z } from 'zod';
import { conversationSchema } from '../presenters/conversation.ts';
import { quotaSchema } from '../quota/quota-record.ts';
import { sandboxSchema } from '../presenters/sandbox.ts';
import { startTaskSchema } from '../presenters/start-task.ts';
import { subjectKinds } from './own-records.ts';
import { closeCodes } from './event-ring.ts';

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
