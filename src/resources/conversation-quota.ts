import { z } from 'zod';
import { conditionsSchema } from './conditions.ts';
import { ageColumn, resourceOf, type CustomObject, type CustomResourceDefinition } from './group.ts';
import { objectName, ownerName, validations } from './schema.ts';

export const quotaScopes = ['Owner', 'Namespace'] as const;
export const quotaPolicies = ['PauseOldest', 'PauseLongestIdle', 'Queue', 'Reject'] as const;
export const autoResumePolicies = ['All', 'Unfinished', 'Never'] as const;

export const conversationQuotaSpecSchema = z
  .object({
    scope: z
      .enum(quotaScopes)
      .meta({ description: 'Owner: the limit holds for each owner on its own. Namespace: for all of them together.' }),
    owner: ownerName()
      .optional()
      .meta({ description: 'With scope Owner: the one owner this is for. Absent: the default for every owner.' }),
    limit: z.int().min(0).max(1_000_000).meta({ description: 'How many sandboxes may be active at once.' }),
    onExceeded: z.enum(quotaPolicies).default('PauseOldest'),
    minActiveSeconds: z
      .int()
      .min(0)
      .max(86_400)
      .default(0)
      .meta({ description: 'How long a sandbox is safe from being paused once it runs.' }),
    autoResume: z.enum(autoResumePolicies).default('All'),
  })
  .meta(
    validations({ rule: "self.scope == 'Owner' || !has(self.owner)", message: 'owner goes with scope Owner only', fieldPath: '.owner' }),
  );

export const conversationQuotaStatusSchema = z.object({
  observedGeneration: z.int().min(0).optional(),
  active: z.int().min(0).optional(),
  waiting: z.int().min(0).optional(),
  paused: z.int().min(0).optional(),
  nextToPause: objectName().optional(),
  conditions: conditionsSchema,
});

export type ConversationQuotaSpec = z.output<typeof conversationQuotaSpecSchema>;
export type ConversationQuota = CustomObject<ConversationQuotaSpec, z.output<typeof conversationQuotaStatusSchema>>;

export const conversationQuotaDefinition: CustomResourceDefinition = {
  kind: 'ConversationQuota',
  plural: 'conversationquotas',
  singular: 'conversationquota',
  shortNames: ['cq'],
  description: 'How many sandboxes may be active at once, and what happens when one more wants to be.',
  spec: conversationQuotaSpecSchema,
  status: conversationQuotaStatusSchema,
  printerColumns: [
    { name: 'Scope', type: 'string', jsonPath: '.spec.scope', description: 'Owner or Namespace.' },
    { name: 'Owner', type: 'string', jsonPath: '.spec.owner', description: 'The one owner it is for.' },
    { name: 'Limit', type: 'integer', jsonPath: '.spec.limit', description: 'How many may be active.' },
    { name: 'Active', type: 'integer', jsonPath: '.status.active', description: 'How many are.' },
    { name: 'Waiting', type: 'integer', jsonPath: '.status.waiting', description: 'How many wait for room.' },
    { name: 'Paused', type: 'integer', jsonPath: '.status.paused', description: 'How many it has paused.' },
    { name: 'Policy', type: 'string', jsonPath: '.spec.onExceeded', description: 'What happens above the limit.', priority: 1 },
    {
      name: 'Next-To-Pause',
      type: 'string',
      jsonPath: '.status.nextToPause',
      description: 'Which one the next start would pause.',
      priority: 1,
    },
    ageColumn,
  ],
  selectableFields: ['.spec.owner', '.spec.scope'],
};

export const conversationQuotas = resourceOf<ConversationQuota>(conversationQuotaDefinition);
