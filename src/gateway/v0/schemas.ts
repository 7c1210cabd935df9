import { z } from 'zod';
import { maxMessageBytes } from '../../resources/conversation.ts';
import { conversationSchema } from '../presenters/conversation.ts';
import { optional } from '../v1/fields.ts';
import { startRequestSchema } from '../v1/schemas.ts';

const request = startRequestSchema.shape;

export const legacyStartSchema = z.strictObject({
  initial_user_msg: optional(
    z
      .string()
      .refine(
        (text) => Buffer.byteLength(text) <= maxMessageBytes,
        `must have at most ${maxMessageBytes} bytes`,
      )
      .overwrite((text) => text.toWellFormed()),
  ),
  repository: request.selected_repository,
  selected_branch: request.selected_branch,
  git_provider: request.git_provider,
  image_urls: optional(z.array(z.string().min(1).max(maxMessageBytes)).max(20)),
  conversation_instructions: request.system_message_suffix,
});
export type LegacyStart = z.output<typeof legacyStartSchema>;

export const legacyStartAnswer = z.object({
  status: z.literal('ok'),
  conversation_id: z.string(),
  message: z.null(),
  conversation_status: z.literal('STARTING'),
});

const { title, selected_repository, selected_branch, git_provider, trigger } =
  conversationSchema.shape;
export const legacyConversationSchema = z.object({
  conversation_id: z.string(),
  title,
  status: z.enum(['STARTING', 'RUNNING', 'STOPPED', 'ERROR', 'ARCHIVED']),
  selected_repository,
  selected_branch,
  git_provider,
  trigger,
  created_at: z.string(),
  last_updated_at: z.string(),
});
export const legacyPage = z.object({
  results: z.array(legacyConversationSchema),
  next_page_id: z.string().nullable(),
});
