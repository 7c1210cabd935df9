import { z } from 'zod';
import type { OwnerReference } from '@conversation-operator/kube/object';
import { maxProviderFailures, providerFailureKinds } from '../models/provider-failures.ts';
import { conversations } from './conversation.ts';
import {
  apiVersion,
  column,
  resourceOf,
  wideColumn,
  type CustomObject,
  type CustomResourceDefinition,
} from './group.ts';
import { isCanonicalId, uuidOf } from './ids.ts';
import {
  count,
  described,
  immutable,
  listMap,
  objectName,
  optional,
  ownerName,
  text,
  timestamp,
  validations,
} from './schema.ts';
import {
  amountGrows,
  budgetCurrencies,
  decimalText,
  modelName,
  usageByModel,
  usageCounters,
  usageGrows,
} from './usage-counters.ts';

export const usageScopes = ['Owner', 'Namespace', 'Conversation'] as const;

export const maxUsageRows = 2000;
export const maxUsageConversations = 1000;
/** Model or conversation that holds the sums of those for which a list has no room. */
export const otherUsage = 'other';

const day = () => text(10).regex(/^[0-9]{4}-[0-9]{2}-[0-9]{2}$/);

const holderSchema = z
  .object({
    id: described(z.string().min(1).max(253), 'Identifier of the process of the replica.'),
    granted: described(decimalText(), 'Amount that the replica has taken so far.'),
    spent: described(decimalText(), 'Amount of that which its settled calls have spent.'),
    renewTime: described(
      timestamp(),
      'Time at which the replica last renewed its share. Ten minutes later the whole share counts as spent.',
    ),
  })
  .meta(validations(amountGrows('spent')));

/** Maximum raises of an account. The operator refuses further ones, so that each counts once. */
export const maxRaises = 32;

const raiseSchema = z.object({
  id: described(z.string().min(1).max(128), 'Identifier of the question that was approved.'),
  amount: described(decimalText(), 'Amount that the raise has added.'),
  by: optional(text(253), 'Person or program that has approved it.'),
  time: described(timestamp(), 'Time at which the operator added it.'),
  admin: optional(
    z.boolean(),
    'True: an admin decided. Absent: the owner did, and maxRaise of the quota counts the amount.',
  ),
});

const accountSchema = z
  .object({
    key: described(
      z.string().min(1).max(300),
      'Budget and period: QUOTA/PERIOD/FIRST DAY, or conversation.',
    ),
    unit: described(z.enum(budgetCurrencies), 'Unit of the amounts: US dollars or tokens.'),
    spent: described(
      decimalText(),
      'Amount that replicas without a share have spent, or took before they were killed.',
    ),
    raised: optional(decimalText(), 'Amount that people have added to the limit. Absent: none.'),
    raises: optional(
      z.array(raiseSchema).max(maxRaises).meta(listMap('id')),
      'Raises of which raised is the sum. Absent: none.',
    ),
    warned: optional(
      z.int().min(1).max(100),
      'Part of the limit in percent of which an Event has warned that it is spent. Absent: none.',
    ),
    holders: optional(
      z.array(holderSchema).max(100).meta(listMap('id')),
      'Replicas that hold a share of the budget. Absent: none.',
    ),
  })
  .meta(
    validations(amountGrows('spent'), {
      rule: 'self.unit == oldSelf.unit',
      message: 'unit is immutable',
      fieldPath: '.unit',
    }),
  );

const rowSchema = z.object({
  day: described(day(), 'Day of the calls, in UTC.'),
  model: described(modelName(), 'Name of the model; other: of all for which there is no room.'),
  template: described(z.string().max(253), 'Name of the SandboxTemplate.'),
  ...usageCounters(),
});

const conversationUsageSchema = z.object({
  name: described(
    objectName(),
    'Name of the Conversation; other: of the oldest ones, for which there is no room.',
  ),
  ...usageCounters(),
  lastDay: described(day(), 'Day of the last call, in UTC.'),
  models: described(usageByModel(), 'The same by model.'),
});

const upstreamSchema = z.object({
  host: described(
    z.string().min(1).max(253),
    'Host and port of the provider; other: of all for which there is no room.',
  ),
  kind: described(
    z.enum(providerFailureKinds),
    'Kind of the failure: no connection, no answer in time, a redirect, a web page, a refused key, status 429, status 5xx, an answer that broke off.',
  ),
  count: described(count(), 'Number of such failures in the month.'),
  lastDay: described(day(), 'Day of the last one, in UTC.'),
  countOfLastDay: described(count(), 'Number on that day.'),
  lastTime: described(timestamp(), 'Time of the last one.'),
  message: described(text(200), 'What the last one was. It has no text of the provider.'),
});

export const usageRecordSpecSchema = z
  .object({
    scope: described(
      z.enum(usageScopes),
      'Owner: of one owner in one month. Namespace: of all owners in one month. Conversation: of one conversation with a budget of its own.',
    ),
    owner: optional(ownerName(), 'Owner of the usage, with scope Owner only.'),
    month: optional(
      text(7).regex(/^[0-9]{4}-(0[1-9]|1[0-2])$/),
      'Month in UTC as YYYY-MM. Absent with scope Conversation.',
    ),
    conversation: optional(
      z.object({
        name: described(objectName(), 'Name of the Conversation.'),
        uid: described(z.string().min(1).max(64), 'UID of the Conversation.'),
      }),
      'Conversation, with scope Conversation only.',
    ),
  })
  .meta(
    validations(
      {
        rule: "has(self.owner) == (self.scope == 'Owner')",
        message: 'owner goes with scope Owner, and only with it',
        fieldPath: '.owner',
      },
      {
        rule: "has(self.month) == (self.scope != 'Conversation')",
        message: 'month goes with scopes Owner and Namespace',
        fieldPath: '.month',
      },
      {
        rule: "has(self.conversation) == (self.scope == 'Conversation')",
        message: 'conversation goes with scope Conversation, and only with it',
        fieldPath: '.conversation',
      },
      ...immutable({ required: ['scope'], optional: ['owner', 'month', 'conversation'] }),
    ),
  );

/**
 * The lists of sums are atomic: with a list map, the API server would store the fields of each
 * entry once more in `managedFields`, and a full record would exceed the size of an object.
 */
export const usageRecordStatusSchema = z
  .object({
    accounts: optional(
      z.array(accountSchema).max(200).meta(listMap('key')),
      'Budgets, and what is taken of each. Absent: none.',
    ),
    totals: optional(
      z.object(usageCounters()).meta(usageGrows()),
      'Sums of all calls. Absent: there was none.',
    ),
    rows: optional(z.array(rowSchema).max(maxUsageRows), 'Sums by day, model and template.'),
    conversations: optional(
      z.array(conversationUsageSchema).max(maxUsageConversations),
      'Sums by conversation, also of deleted ones.',
    ),
    upstreams: optional(
      z
        .array(upstreamSchema)
        .max(maxProviderFailures)
        .meta(
          validations({
            rule: 'oldSelf.all(old, self.exists(one, one.host == old.host && one.kind == old.kind && one.count >= old.count))',
            message: 'upstreams only grow',
          }),
        ),
      'Failures of providers of models by host and kind, with scope Namespace only. Absent: there was none.',
    ),
    writers: optional(
      z
        .array(
          z.object({
            id: described(z.string().min(1).max(253), 'Identifier of the process of the replica.'),
            sequence: described(count(), 'Number of its last write of sums.'),
          }),
        )
        .max(200)
        .meta(listMap('id')),
      'Last write of each replica, so that a repeated write counts once.',
    ),
  })
  .meta(
    validations({
      rule: '!has(oldSelf.totals) || has(self.totals)',
      message: 'totals stays',
      fieldPath: '.totals',
    }),
  );

export type UsageRecordSpec = z.output<typeof usageRecordSpecSchema>;
export type UsageRecordStatus = z.output<typeof usageRecordStatusSchema>;
export type UsageRecord = CustomObject<UsageRecordSpec, UsageRecordStatus>;
/** A record as caches hold it: without the sums by day, which may take half a mebibyte. */
export type CachedUsageRecord = CustomObject<
  UsageRecordSpec,
  Pick<UsageRecordStatus, 'accounts' | 'totals' | 'conversations' | 'upstreams'>
>;
export type UsageAccount = NonNullable<UsageRecordStatus['accounts']>[number];
export type UsageRaise = NonNullable<UsageAccount['raises']>[number];
export type UsageHolder = NonNullable<UsageAccount['holders']>[number];
export type UsageCounters = NonNullable<UsageRecordStatus['totals']>;
export type UsageRow = NonNullable<UsageRecordStatus['rows']>[number];
export type ConversationUsageRow = NonNullable<UsageRecordStatus['conversations']>[number];

export const usageRecordDefinition: CustomResourceDefinition = {
  kind: 'UsageRecord',
  plural: 'usagerecords',
  shortNames: ['ur'],
  description: 'Calls of models, their cost, and what is taken of budgets. The gateway writes it.',
  spec: usageRecordSpecSchema,
  status: usageRecordStatusSchema,
  printerColumns: [
    column('Owner', '.spec.owner', 'Owner of the usage; empty with the other scopes.'),
    column('Month', '.spec.month', 'Month in UTC.'),
    wideColumn('Conversation', '.spec.conversation.name', 'Conversation with its own budget.'),
    column('Calls', '.status.totals.calls', 'Number of calls of models.', 'integer'),
    column('Input', '.status.totals.inputTokens', 'Number of tokens in requests.', 'integer'),
    column('Output', '.status.totals.outputTokens', 'Number of tokens in answers.', 'integer'),
    column('Cost', '.status.totals.cost', 'Cost in US dollars.'),
  ],
  selectableFields: ['.spec.owner', '.spec.month'],
};

export const usageRecords = resourceOf<UsageRecord>(usageRecordDefinition);

/** Subject of a record: an owner's month, a namespace's month, or a conversation. */
export type UsageSubject =
  | { readonly owner: string; readonly month: string }
  | { readonly month: string }
  | { readonly conversation: { readonly name: string; readonly uid: string } };

/**
 * Name of the record, the same in every process. No two names collide, whatever people call their
 * conversations: only those of months contain a hyphen after `usage-`, and a derived one is longer
 * than that of a conversation whose name is an id. A record under the name of another one would
 * stop all calls of that one.
 */
export function usageRecordNameOf(subject: UsageSubject): string {
  if ('conversation' in subject) {
    const { name } = subject.conversation;
    return `usage-${isCanonicalId(name) ? name : `of${uuidOf(`usage/conversation/${name}`)}`}`;
  }
  if (!('owner' in subject)) return `usage-${subject.month}`;
  return `usage-${subject.month}-${uuidOf(`usage/owner/${subject.owner}`)}`;
}

/** The spec of a record, without fields that are undefined. */
interface NewUsageRecordSpec {
  readonly scope: UsageRecordSpec['scope'];
  readonly owner?: string;
  readonly month?: string;
  readonly conversation?: { readonly name: string; readonly uid: string };
}

/** The spec of the record for a subject. */
export function usageRecordSpecOf(subject: UsageSubject): NewUsageRecordSpec {
  if ('conversation' in subject) {
    const { name, uid } = subject.conversation;
    return { scope: 'Conversation', conversation: { name, uid } };
  }
  if (!('owner' in subject)) return { scope: 'Namespace', month: subject.month };
  return { scope: 'Owner', owner: subject.owner, month: subject.month };
}

/**
 * Whether a record with the name of the subject is for it. The answer is false where somebody else
 * created the record, and where a conversation was created again before the old record was deleted.
 */
export function isUsageRecordOf({ spec }: Pick<UsageRecord, 'spec'>, subject: UsageSubject) {
  const expected = usageRecordSpecOf(subject);
  return (
    spec.scope === expected.scope &&
    spec.owner === expected.owner &&
    spec.month === expected.month &&
    spec.conversation?.name === expected.conversation?.name &&
    spec.conversation?.uid === expected.conversation?.uid
  );
}

/** A new record. That of a conversation is deleted with the conversation; the others stay. */
export function newUsageRecord(namespace: string, subject: UsageSubject) {
  const ownerReferences: OwnerReference[] =
    'conversation' in subject
      ? [
          {
            apiVersion,
            kind: conversations.kind,
            name: subject.conversation.name,
            uid: subject.conversation.uid,
          },
        ]
      : [];
  return {
    apiVersion,
    kind: usageRecords.kind,
    metadata: {
      name: usageRecordNameOf(subject),
      namespace,
      ...(ownerReferences.length > 0 ? { ownerReferences } : {}),
    },
    spec: usageRecordSpecOf(subject),
  };
}
