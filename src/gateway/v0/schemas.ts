import { z } from 'zod';
import { gitProviders, maxMessageBytes } from '../../resources/conversation.ts';
import { optional } from '../v1/fields.ts';
import { branch, repository } from '../v1/schemas.ts';

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
  repository: optional(repository()),
  selected_branch: optional(branch()),
  git_provider: optional(z.enum(gitProviders)),
  image_urls: optional(z.array(z.string().min(1).max(maxMessageBytes)).max(20)),
  conversation_instructions: optional(z.string().max(16_384)),
});
export type LegacyStart = z.output<typeof legacyStartSchema>;

export const legacyStartAnswer = z.object({
  status: z.literal('ok'),
  conversation_id: z.string(),
  message: z.null(),
  conversation_status: z.literal('STARTING'),
});

export const legacyConversationSchema = z.object({
  conversation_id: z.string(),
  title: z.string(),
  status: z.enum(['STARTING', 'RUNNING', 'STOPPED', 'ERROR', 'ARCHIVED']),
  selected_repository: z.string().nullable(),
  selected_branch: z.string().nullable(),
  git_provider: z.string().nullable(),
  trigger: z.string().nullable(),
  created_at: z.string(),
  last_updated_at: z.string(),
});
export const legacyPage = z.object({
  results: z.array(legacyConversationSchema),
  next_page_id: z.string().nullable(),
});
