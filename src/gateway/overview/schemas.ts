import { z } from 'zod';
import {
  autoResumePolicies,
  quotaPolicies,
  quotaScopes,
} from '../../resources/conversation-quota.ts';
import { providerFailureKinds } from '../../models/provider-failures.ts';
import { kebabCase } from '../../resources/owner-remedies.ts';
import { budgetSchema } from '../quota/usage.ts';
import { countSchema, idSchema, nullableText, timestampSchema } from '../presenters/schemas.ts';

/** The states in which the overview counts conversations; each conversation has exactly one. */
export const conversationStates = [
  'running',
  'starting',
  'waiting',
  'paused',
  'finished',
  'failed',
] as const;
export type ConversationState = (typeof conversationStates)[number];

/** Maximum items of each list. */
export const maxItems = 200;

const listOf = <T extends z.ZodType>(item: T) =>
  z.object({ total: countSchema, items: z.array(item).describe(`At most ${maxItems}.`) });

const useSchema = z.object({
  active: countSchema.describe('Sandboxes that take a slot; also those that start or stop.'),
  running: countSchema.describe('Conversations whose agent works, or asks its owner.'),
  starting: countSchema,
  waiting: countSchema.describe('Conversations that wait for a slot of a quota, or for a budget.'),
  paused: countSchema,
  finished: countSchema.describe('Conversations whose agent has nothing to do.'),
  failed: countSchema.describe('Conversations that have failed, and those without a sandbox.'),
  conversations: countSchema,
  sandboxes: countSchema.describe('Those that starts under way are to get included.'),
  stored_bytes: countSchema,
});

const ownerSchema = useSchema.extend({
  owner: z.string(),
  quota: nullableText.describe('The quota for the active sandboxes of the owner; null: none.'),
  limit: countSchema.nullable(),
});

const waiterSchema = z.object({
  position: z.int().min(1),
  sandbox_id: nullableText.describe('Null: the start waits for a budget before it gets one.'),
  conversation_id: idSchema.nullable().describe('Null: the sandbox has no conversation.'),
  owner: z.string(),
  reason: z.string().describe('In kebab-case, as docs/reasons.md lists it.'),
  message: z.string(),
  since: timestampSchema,
});

const quotaSchema = z.object({
  name: z.string(),
  scope: z.enum(quotaScopes),
  owner: nullableText.describe('Null: every owner, or with scope Namespace all together.'),
  limit: countSchema,
  on_exceeded: z.enum(quotaPolicies),
  auto_resume: z.enum(autoResumePolicies),
  active: countSchema.nullable().describe('As the operator has counted last; null: not yet.'),
  waiting: countSchema.nullable(),
  paused: countSchema.nullable(),
  full_owners: countSchema.describe('Owners without a free slot; at most 20 are counted.'),
  conflict: nullableText.describe('Which other quotas are for the same; null: none.'),
});

const spenderSchema = z.object({
  owner: z.string(),
  calls: countSchema,
  input_tokens: countSchema,
  output_tokens: countSchema,
  cost: z.number().describe('US dollars.'),
});

const poolSchema = z.object({
  name: z.string(),
  template: z.string(),
  wanted: countSchema,
  ready: countSchema.describe('Warm sandboxes that a start may claim now.'),
  is_ready: z.boolean().nullable().describe('Null: the operator has not judged it yet.'),
  reason: nullableText,
  message: nullableText,
});

const templateSchema = z.object({
  name: z.string(),
  is_valid: z.boolean().nullable().describe('Null: the operator has not checked it yet.'),
  reason: nullableText,
  message: nullableText,
});

const leaderSchema = z.object({
  shard: countSchema.nullable().describe('Null: the operator has no shards.'),
  holder: nullableText.describe('Null: no process leads.'),
  renewed_at: timestampSchema.nullable(),
  is_live: z.boolean().describe('Whether the Lease is held, and was renewed in time.'),
});

const cacheSchema = z.object({
  kind: z.string(),
  objects: countSchema,
  is_synced: z.boolean().describe('Whether everything has been read once.'),
  is_interrupted: z
    .boolean()
    .describe(
      'Whether the watch has failed and nothing has come since, so that changes may be missing.',
    ),
  news_age_seconds: z
    .number()
    .nullable()
    .describe('Since the last event; an API server sends one about every minute.'),
});

export const overviewSchema = z.object({
  generated_at: timestampSchema,
  version: z.string(),
  uptime_seconds: z.number(),
  metrics_url: nullableText.describe('Where the installation has its metrics; null: not set.'),
  leaders: z
    .array(leaderSchema)
    .nullable()
    .describe('Null: the operator runs in the process that answers.'),
  caches: z.array(cacheSchema).describe('Of the replica that answers.'),
  totals: useSchema.extend({
    spares: countSchema.describe('Sandboxes of pools that take a slot and have no owner.'),
  }),
  owners: listOf(ownerSchema).describe('Those with most active sandboxes first.'),
  spending: listOf(spenderSchema).describe(
    'Calls of models of each owner in this month in UTC, the dearest first.',
  ),
  exhausted_budgets: listOf(
    budgetSchema.extend({ owner: nullableText.describe('Null: all owners together.') }),
  ).describe('Budgets that are spent, or 90 % of them while the rest was too little for a call.'),
  upstream_errors: listOf(
    z.object({
      provider: z.string().describe('Host; other: of all for which there is no room.'),
      kind: z.enum(providerFailureKinds.map(kebabCase)),
      today: countSchema.describe('In UTC.'),
      last_at: timestampSchema,
      message: z.string().describe('What the last one was; it has no text of the provider.'),
    }),
  ).describe('Failures of providers of models in this month and the last, the latest first.'),
  queue: listOf(waiterSchema).describe(
    'In the order of admission; then the starts that wait for a budget.',
  ),
  quotas: listOf(quotaSchema),
  pools: listOf(poolSchema),
  templates: listOf(templateSchema).describe('Invalid ones first.'),
});

export type OverviewRecord = z.output<typeof overviewSchema>;
