import { z } from 'zod';
import { conditionsSchema } from './conditions.ts';
import {
  ageColumn,
  resourceOf,
  type CustomObject,
  type CustomResourceDefinition,
} from './group.ts';
import { listMap, objectName, observedGeneration, ownerName, validations } from './schema.ts';

export const quotaScopes = ['Owner', 'Namespace'] as const;
export const quotaPolicies = ['PauseOldest', 'PauseLongestIdle', 'Queue', 'Reject'] as const;
export const autoResumePolicies = ['All', 'Unfinished', 'Never'] as const;

/** A pebibyte: more than any cluster stores, and exact as a number in JSON. */
const maxBytes = 2 ** 50;

export const conversationQuotaSpecSchema = z
  .object({
    scope: z.enum(quotaScopes).meta({
      description:
        'Owner: the limit holds for each owner on its own. Namespace: for all of them together.',
    }),
    owner: ownerName().optional().meta({
      description:
        'Owner to whom the quota applies, with scope Owner only. Absent: the default for every owner.',
    }),
    limit: z
      .int()
      .min(0)
      .max(1_000_000)
      .meta({ description: 'Maximum number of active sandboxes.' }),
    onExceeded: z.enum(quotaPolicies).default('PauseOldest').meta({
      description:
        'Policy for a sandbox that exceeds the limit. PauseOldest, PauseLongestIdle: another sandbox is paused for it. Queue: it waits. Reject: the request is refused.',
    }),
    minActiveSeconds: z
      .int()
      .min(0)
      .max(86_400)
      .default(0)
      .meta({ description: 'Seconds for which a running sandbox is not paused for another one.' }),
    autoResume: z.enum(autoResumePolicies).default('All').meta({
      description:
        'Sandboxes paused by the quota that the operator resumes when there is room. All: each of them. Unfinished: those whose work is unfinished. Never: none.',
    }),
    maxConversations: z
      .int()
      .min(0)
      .max(10_000_000)
      .optional()
      .meta({
        description:
          'Maximum number of stored Conversations, whatever their state: of each owner with scope Owner, of all together with scope Namespace. ' +
          'Absent: no limit. Lowering a limit below the stored number removes nothing and refuses new ones until enough are deleted.',
      }),
    maxStoredBytes: z
      .int()
      .min(0)
      .max(maxBytes)
      .optional()
      .meta({
        description:
          'Maximum total size of the stored Conversations in bytes: metadata and spec of each as JSON in UTF-8, with all messages. Counts like maxConversations. ' +
          'Absent: no limit. A message or an update that would exceed the limit is refused as well.',
      }),
    maxSandboxes: z.int().min(0).max(10_000_000).optional().meta({
      description:
        'Maximum number of stored Sandboxes, paused and failed ones included: each may have a volume. Counts like maxConversations. Absent: no limit.',
    }),
  })
  .meta(
    validations({
      rule: "self.scope == 'Owner' || !has(self.owner)",
      message: 'owner goes with scope Owner only',
      fieldPath: '.owner',
    }),
  );

export const QuotaCondition = {
  /** Other quotas are for the same. The strictest decides. */
  conflicting: 'Conflicting',
} as const;

/** How many owners the status of a quota for many of them names. */
export const maxFullOwners = 20;

const counts = {
  active: z.int().min(0).optional().meta({
    description: 'Number of sandboxes that take a slot, including those that start or stop.',
  }),
  waiting: z
    .int()
    .min(0)
    .optional()
    .meta({ description: 'Number of sandboxes that wait for a slot.' }),
  paused: z.int().min(0).optional().meta({
    description:
      'Number of sandboxes that a quota has paused and that the operator is going to resume.',
  }),
  nextToPause: objectName()
    .optional()
    .meta({ description: 'Name of the sandbox that the next start would pause.' }),
  conversations: z.int().min(0).optional().meta({
    description:
      'Number of stored Conversations that maxConversations counts. Written by the operator; absent where nothing is limited.',
  }),
  storedBytes: z.int().min(0).optional().meta({
    description:
      'Total size in bytes of the stored Conversations, which maxStoredBytes limits. Written by the operator.',
  }),
  sandboxes: z.int().min(0).optional().meta({
    description: 'Number of stored Sandboxes that maxSandboxes counts. Written by the operator.',
  }),
};

export const conversationQuotaStatusSchema = z.object({
  observedGeneration: observedGeneration(),
  ...counts,
  fullOwners: z
    .array(z.object({ owner: z.string().meta({ description: 'Name of the owner.' }), ...counts }))
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
  singular: 'conversationquota',
  shortNames: ['cq'],
  description: 'Limit on active sandboxes, and the policy for what exceeds it.',
  spec: conversationQuotaSpecSchema,
  status: conversationQuotaStatusSchema,
  printerColumns: [
    { name: 'Scope', type: 'string', jsonPath: '.spec.scope', description: 'Owner or Namespace.' },
    {
      name: 'Owner',
      type: 'string',
      jsonPath: '.spec.owner',
      description: 'Owner to whom the quota applies.',
    },
    {
      name: 'Limit',
      type: 'integer',
      jsonPath: '.spec.limit',
      description: 'Maximum number of active sandboxes.',
    },
    {
      name: 'Active',
      type: 'integer',
      jsonPath: '.status.active',
      description: 'Number of sandboxes that take a slot.',
    },
    {
      name: 'Waiting',
      type: 'integer',
      jsonPath: '.status.waiting',
      description: 'Number of sandboxes that wait for a slot.',
    },
    {
      name: 'Paused',
      type: 'integer',
      jsonPath: '.status.paused',
      description: 'Number of sandboxes that the quota has paused.',
    },
    {
      name: 'Next-To-Pause',
      type: 'string',
      jsonPath: '.status.nextToPause',
      description: 'Sandbox that the next start would pause.',
    },
    {
      name: 'Policy',
      type: 'string',
      jsonPath: '.spec.onExceeded',
      description: 'Policy for what exceeds the limit.',
      priority: 1,
    },
    {
      name: 'Conversations',
      type: 'integer',
      jsonPath: '.status.conversations',
      description: 'How many conversations are stored, where that is limited.',
      priority: 1,
    },
    {
      name: 'Stored-Bytes',
      type: 'integer',
      jsonPath: '.status.storedBytes',
      description: 'Their size in bytes, where that is limited.',
      priority: 1,
    },
    {
      name: 'Sandboxes',
      type: 'integer',
      jsonPath: '.status.sandboxes',
      description: 'How many sandboxes are stored, where that is limited.',
      priority: 1,
    },
    {
      name: 'Conflicting',
      type: 'string',
      jsonPath: `.status.conditions[?(@.type=="${QuotaCondition.conflicting}")].status`,
      description: 'Whether other quotas are for the same.',
      priority: 1,
    },
    ageColumn,
  ],
  selectableFields: ['.spec.owner', '.spec.scope'],
};

export const conversationQuotas = resourceOf<ConversationQuota>(conversationQuotaDefinition);
