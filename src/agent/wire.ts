import { z } from 'zod';

/** The answers of the agent-server protocol, as far as they are read. Unknown fields are ignored. */

export const readySchema = z.object({ status: z.string() });

export const initStateSchema = z.object({ state: z.string() });

export const commandOutputSchema = z.object({
  exit_code: z.int().nullish(),
  stdout: z.string().nullish(),
  stderr: z.string().nullish(),
});

export const uploadSchema = z.object({ file_size: z.int().min(0) });

const usageSchema = z.object({
  accumulated_cost: z.number().nullish(),
  accumulated_token_usage: z.object({ prompt_tokens: z.number().nullish(), completion_tokens: z.number().nullish() }).nullish(),
});

export const conversationInfoSchema = z.object({
  id: z.uuid(),
  execution_status: z.string(),
  title: z.string().nullish(),
  created_at: z.string().nullish(),
  updated_at: z.string().nullish(),
  last_user_message_id: z.string().nullish(),
  tags: z.record(z.string(), z.unknown()).nullish(),
  stats: z.object({ usage_to_metrics: z.record(z.string(), usageSchema).nullish() }).nullish(),
});
export type ConversationInfo = z.output<typeof conversationInfoSchema>;

export const conversationPageSchema = z.object({
  items: z.array(z.object({ id: z.uuid(), execution_status: z.string() })),
  next_page_id: z.string().nullish(),
});

export const serverInfoSchema = z.object({ uptime: z.number().min(0), idle_time: z.number().min(0), version: z.string().max(64) });

export const successSchema = z.object({ success: z.literal(true) });

export const countSchema = z.int().min(0);

export const hooksSchema = z.object({ hook_config: z.record(z.string(), z.unknown()).nullish() });

const pageOf = <T extends z.ZodType>(item: T) => z.object({ items: z.array(item), next_page_id: z.string().nullish() });

export const errorEventsSchema = pageOf(z.object({ timestamp: z.string(), code: z.string().nullish(), detail: z.string().nullish() }));

export const stateUpdatesSchema = pageOf(z.object({ key: z.string().nullish(), value: z.unknown() }));

export const messageEventsSchema = pageOf(
  z.object({
    id: z.string(),
    timestamp: z.string(),
    llm_message: z.object({ content: z.array(z.object({ type: z.string(), text: z.string().nullish() })) }),
  }),
);

/** What an error answer says: `detail` is a text, or a list of what is wrong with the fields. */
export const errorBodySchema = z.object({
  detail: z
    .union([z.string(), z.array(z.object({ loc: z.array(z.union([z.string(), z.number()])).nullish(), msg: z.string().nullish() }))])
    .nullish(),
  exception: z.string().nullish(),
});
