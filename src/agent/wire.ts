import { z } from 'zod';
import { optionKinds } from '../resources/approval.ts';
import { exitCodeSchema } from '../resources/run-result.ts';

/** Answers of openhands-agent-server. The schemas have only the fields that the client reads. */

export const readySchema = z.object({ status: z.string() });

export const initStateSchema = z.object({ state: z.string() });

export const commandOutputSchema = z.object({
  exit_code: z.int().nullish(),
  stdout: z.string().nullish(),
  stderr: z.string().nullish(),
});

export const uploadSchema = z.object({ file_size: z.int().min(0) });

/** Optional field. An invalid value counts as absent, so that the rest of the answer is valid. */
const accessory = <T extends z.ZodType>(schema: T) => schema.nullish().catch(undefined);

/** Only the reference agent reports a title here. */
export const initialisedSchema = z.object({ state: z.string(), title: accessory(z.string()) });

const usageSchema = z.object({
  accumulated_cost: accessory(z.number()),
  accumulated_token_usage: accessory(
    z.object({ prompt_tokens: accessory(z.number()), completion_tokens: accessory(z.number()) }),
  ),
});

/** A client may choose any UUID for its conversation, also one without a version of RFC 9562. */
const conversationId = z.guid();

export const conversationInfoSchema = z.object({
  id: conversationId,
  execution_status: z.string(),
  title: accessory(z.string()),
  created_at: accessory(z.string()),
  updated_at: accessory(z.string()),
  last_user_message_id: z.string().nullish(),
  keeps_questions: accessory(z.boolean()),
  tags: accessory(z.record(z.string(), z.unknown())),
  agent: accessory(
    z.object({
      llm: accessory(z.object({ model: accessory(z.string()), base_url: accessory(z.string()) })),
    }),
  ),
  stats: accessory(z.object({ usage_to_metrics: accessory(z.record(z.string(), usageSchema)) })),
});
export type ConversationInfo = z.output<typeof conversationInfoSchema>;

export const conversationListSchema = z.array(conversationInfoSchema.nullable());

export const conversationPageSchema = z.object({
  items: z.array(
    z.object({
      id: conversationId,
      execution_status: z.string(),
      keeps_questions: accessory(z.boolean()),
    }),
  ),
  next_page_id: z.string().nullish(),
});

export const serverInfoSchema = z.object({
  uptime: z.number().min(0),
  idle_time: z.number().min(0),
  version: z.string(),
  title: accessory(z.string()),
});

export const successSchema = z.object({ success: z.literal(true) });

export const countSchema = z.int().min(0);

export const toolNamesSchema = z.array(z.string());

export const hooksSchema = z.object({ hook_config: z.record(z.string(), z.unknown()).nullish() });

const pageOf = <T extends z.ZodType>(item: T) =>
  z.object({ items: z.array(item), next_page_id: z.string().nullish() });

export const errorEventsSchema = pageOf(
  z.object({
    timestamp: z.string().min(1).max(64),
    code: z.string().nullish(),
    detail: z.string().nullish(),
  }),
);

export const stateUpdatesSchema = pageOf(
  z.object({ key: z.string().nullish(), value: z.unknown(), timestamp: z.string().optional() }),
);

const eventId = z.string().regex(/^[\x21-\x7e]{1,128}$/);

export const messageEventsSchema = pageOf(
  z.object({
    // `status.messages.inFlight` stores id and timestamp while a message is delivered.
    id: eventId,
    timestamp: z.string().regex(/^[\x21-\x7e]{1,64}$/),
    llm_message: z.object({
      content: z.array(z.object({ type: z.string(), text: z.string().nullish() })),
    }),
  }),
);

export const actionEventsSchema = pageOf(
  z.object({
    id: z.string(),
    tool_name: accessory(z.string()),
    summary: accessory(z.string()),
    llm_response_id: accessory(z.string()),
    // The question shows the action unchanged, whatever its type is.
    action: z.unknown(),
  }),
);
export type ActionEvent = z.output<typeof actionEventsSchema>['items'][number];

export const recentEventsSchema = pageOf(
  z.object({
    kind: accessory(z.string()),
    source: accessory(z.string()),
    tool_call_id: accessory(z.string()),
    status: accessory(z.string()),
    error: accessory(z.string()),
    llm_message: accessory(
      z.object({ content: z.array(z.object({ text: accessory(z.string()) })) }),
    ),
    action: accessory(z.object({ kind: z.string(), message: accessory(z.string()) })),
    observation: accessory(
      z.object({
        kind: accessory(z.string()),
        is_error: accessory(z.boolean()),
        exit_code: accessory(exitCodeSchema),
      }),
    ),
  }),
);
export type RecentEvent = z.output<typeof recentEventsSchema>['items'][number];

export const rejectionEventsSchema = pageOf(z.object({ action_id: accessory(z.string()) }));

/** Open question of an agent of kind `acp`. The schema removes options of an unknown kind. */
export const acpApprovalSchema = z.object({
  approval: z
    .object({
      id: eventId,
      title: z.string(),
      tool_kind: z.string(),
      input: z.unknown(),
      // Earlier versions of the ACP bridge do not send these fields.
      call_hash: accessory(z.string().max(128)),
      complete: accessory(z.boolean()),
      secret_marker: accessory(z.literal('<secret-hidden>')),
      options: z
        .array(z.object({ option_id: z.string(), name: z.string(), kind: z.string() }))
        .transform((options) =>
          options.flatMap(({ kind, ...option }) => {
            const known = optionKinds.find((each) => each === kind);
            return known === undefined ? [] : [{ ...option, kind: known }];
          }),
        ),
    })
    .nullable(),
});

/** Body of an error. `detail` is a text, or a list of invalid fields. */
export const errorBodySchema = z.object({
  detail: z
    .union([
      z.string(),
      z.array(
        z.object({
          loc: z.array(z.union([z.string(), z.number()])).nullish(),
          msg: z.string().nullish(),
        }),
      ),
    ])
    .nullish(),
  exception: z.string().nullish(),
});
