import { z } from 'zod';
import { maxMessageBytes, type Message } from '../../resources/conversation.ts';
import { optional, unused } from '../http/fields.ts';

/** OpenHands SDKs send this field with each content object. */
const cache_prompt = unused('whether the model caches its prompt is the choice of the agent.');

const textSchema = z.strictObject({
  cache_prompt,
  type: z.literal('text'),
  // Half a surrogate pair can neither be stored nor sent to an agent.
  text: z
    .string()
    .min(1, 'must not be empty')
    .overwrite((text) => text.toWellFormed()),
});
const imageSchema = z.strictObject({
  cache_prompt,
  type: z.literal('image'),
  image_urls: z
    .array(z.string().min(1, 'must not be empty').max(maxMessageBytes))
    .min(1, 'must not be empty')
    .max(20),
});

const contentSchema = z
  .array(z.discriminatedUnion('type', [textSchema, imageSchema]))
  .min(1, 'must have at least one content object')
  .max(64)
  .superRefine((content, context) => {
    const bytes = content.reduce(
      (total, part) => total + (part.type === 'text' ? Buffer.byteLength(part.text) : 0),
      0,
    );
    if (bytes <= maxMessageBytes) return;
    context.addIssue({
      code: 'custom',
      message: `must have at most ${maxMessageBytes} bytes of text in total`,
    });
  });
const runSchema = optional(z.boolean()).transform((run) => run ?? true);

export const messageSchema = z.strictObject({
  role: optional(z.enum(['user', 'system', 'assistant'])).transform((role) => role ?? 'user'),
  content: contentSchema,
  run: runSchema,
});

/** A running agent only accepts messages with the role user. */
export const sendMessageSchema = messageSchema.extend({
  role: optional(z.literal('user')).transform((role) => role ?? 'user'),
  run: runSchema.describe(
    'Whether the agent starts working on it at once, or only keeps it; true by default.',
  ),
});

export const messageOf = ({ role, content, run }: z.output<typeof messageSchema>): Message => ({
  role,
  content: content.map((part) =>
    part.type === 'text'
      ? { type: part.type, text: part.text }
      : { type: part.type, imageUrls: part.image_urls },
  ),
  run,
});

export const shownMessageSchema = z.object({
  role: z.string(),
  content: z.array(
    z.union([
      z.object({ type: z.literal('text'), text: z.string() }),
      z.object({ type: z.literal('image'), image_urls: z.array(z.string()) }),
    ]),
  ),
  run: z.boolean(),
});

export const shownMessage = ({
  role,
  content,
  run,
}: Message): z.output<typeof shownMessageSchema> => ({
  role,
  content: content.map(({ type, text, imageUrls }) =>
    type === 'text' ? { type, text: text ?? '' } : { type, image_urls: [...(imageUrls ?? [])] },
  ),
  run,
});
