import { z } from 'zod';
import { paging } from '../http/fields.ts';
import { countSchema, idSchema, nullableText, pageSchema } from '../presenters/schemas.ts';

const minLength = 2;
const maxLength = 200;

export const textSearchQuery = z.object({
  q: z
    .string()
    .max(maxLength, `must have at most ${maxLength} characters`)
    .refine(
      (text) => text.trim().length >= minLength,
      `must have at least ${minLength} characters beside white space`,
    )
    .describe(
      `The text, of ${minLength} to ${maxLength} characters, as it is: no pattern. The case of letters and the kind of white space do not matter.`,
    ),
  ...paging,
});

const foundSchema = z.object({
  conversation_id: idSchema,
  title: z.string().describe('The title of the conversation.'),
  where: z.enum(['title', 'repository', 'branch', 'pull_request', 'event']),
  event_id: nullableText.describe('The event, where the text is in one; else null.'),
  kind: nullableText.describe('The kind of the event, such as MessageEvent.'),
  timestamp: nullableText.describe("The agent's local time of the event, without a zone."),
  snippet: z
    .string()
    .describe('The surroundings of the text: plain, in one line, with … where they are truncated.'),
});

const searchedSchema = z.object({
  conversations: countSchema.describe(
    'Conversations that this page and those before it have searched.',
  ),
  of: countSchema.describe('All conversations of the owner.'),
  incomplete: countSchema.describe(
    'Conversations that this page has searched without all of their events: the archive does not have them, or not yet, or can not be read.',
  ),
});

export const textSearchPage = pageSchema(foundSchema).extend({ searched: searchedSchema });

export type Found = z.output<typeof foundSchema>;
export type TextSearchPage = z.output<typeof textSearchPage>;
