import { z } from 'zod';
import { conditionsSchema } from './conditions.ts';
import {
  column,
  resourceOf,
  wideColumn,
  type CustomObject,
  type CustomResourceDefinition,
} from './group.ts';
import { duration } from './sandbox-template.ts';
import {
  count,
  described,
  listMap,
  objectName,
  observedGeneration,
  optional,
  ownerName,
  validations,
} from './schema.ts';
import { budgetCurrencies, maxBudgetUsd } from './usage-counters.ts';

export const quotaScopes = ['Owner', 'Namespace'] as const;
export const quotaPolicies = ['PauseOldest', 'PauseLongestIdle', 'Queue', 'Reject'] as const;
export const autoResumePolicies = ['All', 'Unfinished', 'Never'] as const;

export const budgetPeriods = ['Day', 'Week', 'Month'] as const;
export type BudgetPeriod = (typeof budgetPeriods)[number];
export const budgetPolicies = ['Reject', 'Queue'] as const;

/** Maximum amount of a budget in tokens, and more than any in US dollars. */
const maxTokens = 1_000_000_000_000;
const maxZoneLength = 64;

const budgetSchema = z
  .object({
    amount: described(
      z.number().positive().max(maxTokens),
      `Amount for each period: US dollars up to ${maxBudgetUsd}, or tokens. An amount is rounded to nine decimals.`,
    ),
    currency: described(
      z.enum(budgetCurrencies).default('USD'),
      'Unit of the amounts: US dollars, or tokens of requests and answers together.',
    ),
    period: described(
      z.enum(budgetPeriods).default('Month'),
      'Period after which the budget starts again: a day, a week from Monday, or a month.',
    ),
    timeZone: described(
      z
        .string()
        .min(1)
        .max(maxZoneLength)
        .regex(/^[A-Za-z][A-Za-z0-9_+-]*(\/[A-Za-z0-9_+-]+)*$/)
        .default('UTC'),
      'Time zone in which the period begins, such as Europe/Berlin. Where the operator does not know the zone, the condition UnknownTimeZone is True, and UTC applies.',
    ),
    onExceeded: described(
      z.enum(budgetPolicies).default('Reject'),
      'Policy for new starts of an owner whose budget is exhausted. Reject: the start is refused. Queue: it waits without a sandbox until the budget has room: in the next period, or after a raise.',
    ),
    maxRaise: described(
      z.number().min(0).max(maxTokens).default(0),
      'Amount that an owner may add in each period without an admin.',
    ),
  })
  .meta(
    validations(
      {
        rule: `self.currency == 'Tokens' || self.amount <= ${maxBudgetUsd}.0`,
        message: `a budget in USD is at most ${maxBudgetUsd}`,
        fieldPath: '.amount',
      },
      {
        rule: "self.currency == 'USD' || double(int(self.amount)) == self.amount",
        message: 'an amount of tokens is an integer',
        fieldPath: '.amount',
      },
    ),
  );

/** A pebibyte, which is more than a cluster stores, and exact as a number in JSON. */
const maxBytes = 2 ** 50;

export const conversationQuotaSpecSchema = z
  .object({
    scope: described(
      z.enum(quotaScopes),
      'Owner: the limit holds for each owner on its own. Namespace: for all of them together.',
    ),
    owner: optional(
      ownerName(),
      'Owner to whom the quota applies, with scope Owner only. Absent: the default for every owner.',
    ),
    limit: described(count().max(1_000_000), 'Maximum number of active sandboxes.'),
    onExceeded: described(
      z.enum(quotaPolicies).default('PauseOldest'),
      'Policy for a sandbox that exceeds the limit. PauseOldest, PauseLongestIdle: another sandbox is paused for it. Queue: it waits. Reject: the request is refused.',
    ),
    minActiveSeconds: described(
      count().max(86_400).default(0),
      'Seconds for which a running sandbox is not paused for another one.',
    ),
    autoResume: described(
      z.enum(autoResumePolicies).default('All'),
      'Sandboxes paused by the quota that the operator resumes when there is room. All: each of them. Unfinished: those whose work is unfinished. Never: none.',
    ),
    maxConversations: optional(
      count().max(10_000_000),
      'Maximum number of stored Conversations, whatever their state: of each owner with scope Owner, of all together with scope Namespace. ' +
        'Absent: no limit. Lowering a limit below the stored number removes nothing and refuses new ones until enough are deleted.',
    ),
    maxStoredBytes: optional(
      count().max(maxBytes),
      'Maximum total size of the stored Conversations in bytes: metadata and spec of each as JSON in UTF-8, with all messages. Counts like maxConversations. ' +
        'Absent: no limit. A message or an update that would exceed the limit is refused as well.',
    ),
    maxSandboxes: optional(
      count().max(10_000_000),
      'Maximum number of stored Sandboxes, paused and failed ones included: each may have a volume. Counts like maxConversations. Absent: no limit.',
    ),
    maxArchivedBytes: optional(
      count().max(maxBytes),
      'Maximum total size in bytes of the archives of conversations, as stored: of each owner with scope Owner, of all together with scope Namespace. ' +
        'Absent: no limit. Events beyond it are not archived; what is archived already is kept.',
    ),
    archiveRetention: optional(
      duration(),
      'Maximum time for which the archive of a conversation is kept after the last event. The shorter one of this and archive.retention of the template applies. Absent: no limit.',
    ),
    budget: optional(
      budgetSchema,
      'Maximum use of models in each period: of each owner with scope Owner, of all together with scope Namespace. Absent: no limit.',
    ),
  })
  .meta(
    validations(
      {
        rule: "self.scope == 'Owner' || !has(self.owner)",
        message: 'owner goes with scope Owner only',
        fieldPath: '.owner',
      },
      {
        rule: "self.scope == 'Owner' || !has(self.budget) || !has(self.budget.maxRaise) || self.budget.maxRaise == 0.0",
        message: 'budget.maxRaise goes with scope Owner only',
        fieldPath: '.budget',
      },
    ),
  );

export const QuotaCondition = {
  /** Other quotas have the same scope. Only the one with the lowest limit applies. */
  conflicting: 'Conflicting',
  /** The time zone of the budget is unknown, and UTC applies. */
  unknownTimeZone: 'UnknownTimeZone',
} as const;

/** Maximum owners in the status of a quota that limits each owner separately. */
export const maxFullOwners = 20;

const counts = {
  active: optional(
    count(),
    'Number of sandboxes that take a slot, including those that start or stop.',
  ),
  waiting: optional(count(), 'Number of sandboxes that wait for a slot.'),
  paused: optional(
    count(),
    'Number of sandboxes that a quota has paused and that the operator is going to resume.',
  ),
  nextToPause: optional(objectName(), 'Name of the sandbox that the next start would pause.'),
  conversations: optional(
    count(),
    'Number of stored Conversations that maxConversations counts. Written by the operator; absent where nothing is limited.',
  ),
  storedBytes: optional(
    count(),
    'Total size in bytes of the stored Conversations, which maxStoredBytes limits. Written by the operator.',
  ),
  sandboxes: optional(
    count(),
    'Number of stored Sandboxes that maxSandboxes counts. Written by the operator.',
  ),
};

export const conversationQuotaStatusSchema = z.object({
  observedGeneration: observedGeneration(),
  ...counts,
  fullOwners: z
    .array(z.object({ owner: described(z.string(), 'Name of the owner.'), ...counts }))
    .max(maxFullOwners)
    .optional()
    .meta({
      ...listMap('owner'),
      description:
        'Owners that have no slot left, the one with most waiting sandboxes first. Only of a quota for many owners.',
    }),
  conditions: conditionsSchema,
});

export type ConversationQuotaSpec = z.output<typeof conversationQuotaSpecSchema>;
export type ConversationQuota = CustomObject<
  ConversationQuotaSpec,
  z.output<typeof conversationQuotaStatusSchema>
>;

export const conversationQuotaDefinition: CustomResourceDefinition = {
  kind: 'ConversationQuota',
  plural: 'conversationquotas',
  shortNames: ['cq'],
  description: 'Limit on active sandboxes, and the policy for what exceeds it.',
  spec: conversationQuotaSpecSchema,
  status: conversationQuotaStatusSchema,
  printerColumns: [
    column('Scope', '.spec.scope', 'Owner or Namespace.'),
    column('Owner', '.spec.owner', 'Owner to whom the quota applies.'),
    column('Limit', '.spec.limit', 'Maximum number of active sandboxes.', 'integer'),
    column('Active', '.status.active', 'Number of sandboxes that take a slot.', 'integer'),
    column('Waiting', '.status.waiting', 'Number of sandboxes that wait for a slot.', 'integer'),
    column('Paused', '.status.paused', 'Number of sandboxes that the quota has paused.', 'integer'),
    column('Next-To-Pause', '.status.nextToPause', 'Sandbox that the next start would pause.'),
    wideColumn('Policy', '.spec.onExceeded', 'Policy for what exceeds the limit.'),
    wideColumn(
      'Conversations',
      '.status.conversations',
      'Number of stored conversations, where a limit counts them.',
      'integer',
    ),
    wideColumn(
      'Stored-Bytes',
      '.status.storedBytes',
      'Their size in bytes, where that is limited.',
      'integer',
    ),
    wideColumn(
      'Sandboxes',
      '.status.sandboxes',
      'Number of stored sandboxes, where a limit counts them.',
      'integer',
    ),
    wideColumn('Budget', '.spec.budget.amount', 'Amount of the budget in each period.', 'number'),
    wideColumn(
      'Conflicting',
      `.status.conditions[?(@.type=="${QuotaCondition.conflicting}")].status`,
      'Whether other quotas are for the same.',
    ),
  ],
  selectableFields: ['.spec.owner', '.spec.scope'],
};

export const conversationQuotas = resourceOf<ConversationQuota>(conversationQuotaDefinition);
