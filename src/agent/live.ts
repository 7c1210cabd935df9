import { z } from 'zod';

/** Maximum bytes of one answer of an agent. */
export const maxLiveBytes = 2 * 1024 * 1024;
const maxItems = 16;
const maxCursorLength = 512;

export const liveCursor = z
  .string()
  .regex(
    new RegExp(`^[A-Za-z0-9_:,-]{0,${maxCursorLength}}$`),
    'must be the cursor of an earlier answer',
  );

const liveItemSchema = z.object({
  id: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/)
    .describe('Names the text: another id is another text, for instance after a restart.'),
  kind: z.enum(['output', 'message', 'thought']),
  tool_call_id: z
    .string()
    .max(1024)
    .nullable()
    .describe('The call in the events whose output this is; else null.'),
  elapsed_ms: z.int().min(0).describe('Milliseconds since the text has begun.'),
  from: z
    .int()
    .min(0)
    .describe(
      'Place of this part in the whole text, in UTF-16 units. Beyond the end of the part before, the reader has missed what was between.',
    ),
  end: z.int().min(0).describe('Place where the next part begins.'),
  text: z.string().describe('The part, without the secrets that the service knows.'),
});

/** Parts of the texts that grow in a conversation, and that no event has yet. */
export const liveSchema = z.object({
  items: z.array(liveItemSchema).max(maxItems),
  cursor: liveCursor
    .nullable()
    .describe(
      'The next read continues after it. Null: the agent reports nothing but its events, and need not be asked again.',
    ),
  last_event_id: z
    .string()
    .max(1024)
    .nullable()
    .describe('The last event that the agent has stored; the items begin behind it.'),
  run_ms: z.int().min(0).nullable().describe('Milliseconds since the run has begun.'),
});
export type LiveActivity = z.output<typeof liveSchema>;
