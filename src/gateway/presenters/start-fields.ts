import { z } from 'zod';
import { parseUuid } from '@conversation-operator/base/uuid';
import {
  confirmationPolicies,
  confirmationPolicy,
  toolNames,
} from '../../resources/agent-settings.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { maxStartSecrets, type ConversationSpec } from '../../resources/conversation.ts';
import { maxTitleLength } from '../../resources/conversation-status.ts';
import { gitProviders } from '../../resources/git-providers.ts';
import {
  branch,
  label,
  optional,
  repository,
  secretNameField,
  secretValue,
  shownText,
  unused,
  uuid,
} from '../http/fields.ts';
import type { StartTexts } from '../lookup/start-texts.ts';
import { messageSchema, shownMessage, shownMessageSchema } from './message.ts';
import { maxBudgetUsd } from '../../resources/usage-counters.ts';
import { nullableText } from './schemas.ts';

export const chosenIdAnnotation = 'conversation-operator.dev/chosen-id';

const maxStartSecretBytes = 192 * 1024;

const kind = unused('every secret of a start is a static one.');
const description = unused('the secrets of a start are shown nowhere.');

/** The value of a secret, or an object in the form in which SDKs send static secrets. */
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

const unusedFields = {
  agent_profile_id: unused('there are no profiles of agents.'),
  plugins: unused('plugins come with repositories.'),
  processors: unused('there are no processors of events.'),
  suggested_task: unused('the message says what there is to do.'),
  observability_metadata: unused('traces are a setting of the service.'),
  observability_tags: unused('traces are a setting of the service.'),
  observability_span_name: unused('traces are a setting of the service.'),
};

const hasNineDecimals = (value: number): boolean => Number(value.toFixed(9)) === value;
const costRule = `must be a number above 0, at most ${maxBudgetUsd}, with at most 9 decimals`;
const maxCost = z
  .number({ error: costRule })
  .positive(costRule)
  .max(maxBudgetUsd, costRule)
  .refine(hasNineDecimals, costRule);

/** The body of a start. The hash of a request depends on the order of these fields. */
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
  max_cost: optional(maxCost).describe(
    `Maximum cost of the calls of models in this conversation in US dollars, up to ${maxBudgetUsd}. Then the agent gets no further answer of a model, until somebody raises it. Absent: the quotas decide.`,
  ),
  ...unusedFields,
});
export type StartRequest = z.output<typeof startRequestSchema>;

type Repository = NonNullable<ConversationSpec['repository']>;
type Agent = NonNullable<ConversationSpec['agent']>;
/** The types of the fields of a Conversation's spec, by their paths such as `repository.name`. */
type Places = ConversationSpec & { [K in keyof Repository as `repository.${K}`]: Repository[K] } & {
  [K in keyof Agent as `agent.${K}`]: Agent[K];
};

interface Field {
  readonly place: keyof Places;
  readonly shown: z.ZodType;
  readonly show: (value: never) => unknown;
}
const at = <P extends keyof Places, S extends z.ZodType>(
  place: P,
  shown: S,
  show: (value: Places[P] | undefined) => z.output<S>,
) => ({ place, shown, show });

const orNull = <T>(value: T | undefined): T | null => value ?? null;

/** The fields of a start request that the record of the conversation shows too. */
const recordFields = {
  selected_repository: at('repository.name', nullableText, orNull),
  selected_branch: at('repository.branch', nullableText, orNull),
  git_provider: at('repository.provider', nullableText, orNull),
  title: at('title', nullableText, orNull),
  trigger: at('trigger', nullableText, orNull),
  pr_number: at('prNumbers', z.array(z.int()), (numbers = []) => numbers),
};

type StoredField = Exclude<
  keyof StartRequest,
  keyof typeof unusedFields | 'conversation_id' | 'initial_message' | 'secrets' | 'max_cost'
>;
/** Every field of a start request that the spec stores unchanged. */
const storedFields = {
  ...recordFields,
  parent_conversation_id: at('parent', nullableText, (name) =>
    name === undefined ? null : (parseUuid(name) ?? name),
  ),
  llm_model: at('agent.model', nullableText, orNull),
  agent_type: at('agent.type', nullableText, orNull),
  system_message_suffix: at('agent.systemMessageSuffix', nullableText, orNull),
  tools: at('agent.tools', z.array(z.string()).nullable(), orNull),
  confirmation_policy: at(
    'agent.confirmationPolicy',
    z.enum(confirmationPolicies).nullable(),
    orNull,
  ),
  sandbox_id: at('sandboxName', nullableText, orNull),
  sandbox_spec_id: at('templateName', nullableText, orNull),
  public: at('public', z.boolean().nullable(), orNull),
} satisfies Record<StoredField, Field>;

type Fields = Readonly<Record<string, Field>>;
type Spec = CachedConversation['spec'];

const schemasOf = <F extends Fields>(fields: F) =>
  Object.fromEntries(Object.entries(fields).map(([name, { shown }]) => [name, shown])) as {
    [K in keyof F]: F[K]['shown'];
  };

const shownIn = <F extends Fields>(spec: Spec, fields: F) =>
  Object.fromEntries(
    Object.entries(fields).map(([name, { place, show }]) => [name, show(valueAt(spec, place))]),
  ) as { [K in keyof F]: ReturnType<F[K]['show']> };

const valueAt = (spec: object, place: string) =>
  place
    .split('.')
    .reduce<unknown>(
      (value, key) => (value as Record<string, unknown> | undefined)?.[key],
      spec,
    ) as never;

export const recordFieldSchemas = schemasOf(recordFields);
export const shownRecordFields = (spec: Spec) => shownIn(spec, recordFields);

/** The fields of the spec that a request sets. */
export function specFieldsOf(request: {
  readonly [K in StoredField]?: Places[(typeof storedFields)[K]['place']] | undefined;
}): Partial<ConversationSpec> {
  const spec: Record<string, unknown> = {};
  for (const [name, { place }] of Object.entries(storedFields)) {
    const value = request[name as StoredField];
    const [outer, inner] = place.split('.') as [string, string?];
    if (value !== undefined)
      spec[outer] = inner === undefined ? value : { ...(spec[outer] as object), [inner]: value };
  }
  return spec;
}

/** The start request as responses show it: with default values, without ignored fields. */
export const shownStartSchema = z.object({
  conversation_id: nullableText,
  initial_message: shownMessageSchema.nullable(),
  ...schemasOf(storedFields),
  max_cost: z.number().nullable(),
});

export const shownStart = (
  { metadata, spec }: CachedConversation,
  { message, systemMessageSuffix }: StartTexts,
): z.output<typeof shownStartSchema> => ({
  conversation_id: metadata.annotations?.[chosenIdAnnotation] === 'true' ? metadata.name : null,
  initial_message: message === undefined ? null : shownMessage(message),
  ...shownIn(spec, storedFields),
  system_message_suffix: systemMessageSuffix ?? null,
  max_cost: spec.budget?.amount ?? null,
});
