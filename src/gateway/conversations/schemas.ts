import { z } from 'zod';
import { confirmationPolicy, toolNames } from '../../resources/agent-settings.ts';
import { maxMessageBytes, maxStartSecrets, type Message } from '../../resources/conversation.ts';
import { gitProviders } from '../../resources/git-providers.ts';
import { maxTitleLength } from '../../resources/conversation-status.ts';
import {
  label,
  optional,
  paging,
  shownName,
  shownText,
  time,
  unused,
  uuid,
  secretNameField,
  secretValue,
  branch,
  repository,
} from '../http/fields.ts';

/** OpenHands SDKs send it with each content object. */
const cache_prompt = unused('whether the model caches its prompt is the choice of the agent.');

const textSchema = z.strictObject({
  cache_prompt,
  type: z.literal('text'),
  // Half a surrogate pair can't be stored, nor be sent to an agent.
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

const messageSchema = z.strictObject({
  role: optional(z.enum(['user', 'system', 'assistant'])).transform((role) => role ?? 'user'),
  content: contentSchema,
  run: runSchema,
});

/** Agents take no other messages than their user's once they are there. */
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

/** Maximum bytes of all secrets of a start. */
const maxStartSecretBytes = 192 * 1024;

const kind = unused('every secret of a start is a static one.');
const description = unused('the secrets of a start are shown nowhere.');

/** A value, also in the form in which SDKs send static secrets. */
const startSecret = z
  .union([secretValue(), z.strictObject({ value: secretValue(), kind, description })], {
    error: 'must be the value of a secret, or an object with the value',
  })
  .transform((secret) => (typeof secret === 'string' ? secret : secret.value));

const startSecrets = z
  .record(secretNameField(), startSecret)
  .refine((secrets) => Object.keys(secrets).length <= maxStartSecrets, {
    error: `must have at most ${maxStartSecrets} secrets`,
    abort: true,
  })
  .refine(
    (secrets) =>
      Object.values(secrets).reduce((sum, value) => sum + Buffer.byteLength(value), 0) <=
      maxStartSecretBytes,
    `must have at most ${maxStartSecretBytes} bytes in total`,
  )
  .transform((secrets) => (Object.keys(secrets).length === 0 ? undefined : secrets));

export const startRequestSchema = z.strictObject({
  conversation_id: optional(uuid()),
  initial_message: messageSchema
    .nullable()
    .describe(
      'The first message. An explicit null starts a conversation that is idle until it gets one.',
    ),
  selected_repository: optional(repository()),
  selected_branch: optional(branch()),
  git_provider: optional(z.enum(gitProviders)),
  title: optional(shownText(maxTitleLength)),
  sandbox_id: optional(z.string().max(253)).describe(
    'A sandbox of yours to join instead of getting a new one.',
  ),
  sandbox_spec_id: optional(z.string().max(253)),
  parent_conversation_id: optional(uuid()),
  llm_model: optional(label(256)),
  system_message_suffix: optional(z.string().max(16_384)),
  trigger: optional(label(64)),
  pr_number: optional(z.array(z.int().min(1)).max(100)),
  secrets: optional(startSecrets).describe(
    `Secrets for the agent of this conversation alone, by name: at most ${maxStartSecrets}. No answer shows them.`,
  ),
  public: optional(z.boolean()),
  agent_type: optional(label(64)),
  tools: optional(toolNames()).describe(
    "What the agent may use, by name; an empty list leaves it with words alone. Absent: the sandbox spec's choice.",
  ),
  confirmation_policy: optional(
    confirmationPolicy('must be NeverConfirm, AlwaysConfirm or ConfirmRisky'),
  ),
  agent_profile_id: unused('there are no profiles of agents.'),
  plugins: unused('plugins come with repositories.'),
  processors: unused('there are no processors of events.'),
  suggested_task: unused('the message says what there is to do.'),
  observability_metadata: unused('traces are a setting of the service.'),
  observability_tags: unused('traces are a setting of the service.'),
  observability_span_name: unused('traces are a setting of the service.'),
});
export type StartRequest = z.output<typeof startRequestSchema>;

/** Maximum number of tags: every record of the conversation contains all of them. */
const maxTags = 64;

export const updateRequestSchema = z.strictObject({
  title: optional(shownName(maxTitleLength)),
  public: optional(z.boolean()),
  tags: optional(
    z
      .record(label(64), label(256))
      .refine((tags) => Object.keys(tags).length <= maxTags, `must have at most ${maxTags} tags`),
  ).describe(`They replace those that are there; at most ${maxTags}.`),
});
export type UpdateRequest = z.output<typeof updateRequestSchema>;

const orders = (...fields: readonly string[]) =>
  fields.flatMap((field) => [field, `${field}_DESC`]);

export const conversationFilters = z.object({
  title__contains: z.string().optional(),
  created_at__gte: time().optional(),
  created_at__lt: time().optional(),
  updated_at__gte: time().optional(),
  updated_at__lt: time().optional(),
  sandbox_id__eq: z.string().optional(),
});
export type ConversationFilters = z.output<typeof conversationFilters>;
export const conversationSearch = conversationFilters.extend({
  sort_order: z.enum(orders('CREATED_AT', 'UPDATED_AT', 'TITLE')).default('CREATED_AT_DESC'),
  ...paging,
});

export const startTaskFilters = z.object({
  conversation_id__eq: uuid().optional(),
  created_at__gte: time().optional(),
});
export type StartTaskFilters = z.output<typeof startTaskFilters>;
export const startTaskSearch = startTaskFilters.extend({
  sort_order: z.enum(orders('CREATED_AT', 'UPDATED_AT')).default('CREATED_AT_DESC'),
  ...paging,
});
