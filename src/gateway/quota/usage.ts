import { z } from 'zod';
import type { Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { found } from '@conversation-operator/kube/errors';
import { shownAmount, shownSpent } from '../../budget/money.ts';
import { shownMinute } from '../../budget/period.ts';
import { groupUsage, toCsv, usageGroups, type UsageItem } from '../../models/usage-groups.ts';
import {
  hasRefused,
  isExhausted,
  type BudgetAccount,
  type BudgetUse,
  type QuotaBudget,
} from '../../quota/budgets.ts';
import { budgetPeriods, quotaScopes } from '../../resources/conversation-quota.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { ownerName } from '../../resources/schema.ts';
import { budgetCurrencies, type BudgetCurrency } from '../../resources/usage-counters.ts';
import {
  isUsageRecordOf,
  otherUsage,
  usageRecordNameOf,
  usageRecords,
} from '../../resources/usage-record.ts';
import { onlyAdmin } from '../errors/common-problems.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { endpoints, type Route } from '../http/route.ts';
import { sendBytes } from '../http/send-bytes.ts';
import { mapLimited, type ResourceLookup } from '../lookup/resource-lookup.ts';
import { countSchema, timestampSchema, wireTime } from '../presenters/schemas.ts';

const maxDays = 366;
const dayMs = 24 * 3_600_000;
const dayRule = 'must be a day as YYYY-MM-DD';

const isDay = (text: string): boolean => {
  const time = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(time) && dayOf(time) === text;
};
const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 'YYYY-MM-DD'.length);
const day = () =>
  z
    .string()
    .regex(/^\d{4}-\d\d-\d\d$/, { error: dayRule, abort: true })
    .refine(isDay, dayRule)
    .optional();

const querySchema = z.object({
  from: day().describe('First day in UTC, as YYYY-MM-DD. Default: the first day of this month.'),
  to: day().describe(`Last day in UTC, at most ${maxDays} days in all. Default: today.`),
  group_by: z
    .enum(usageGroups)
    .default('day')
    .describe('By conversation, each month with a day in the range counts as a whole.'),
  owner: ownerName().optional().describe('For an admin: the usage of this owner.'),
});

const sums = {
  calls: countSchema,
  input_tokens: countSchema.describe('With the cached ones.'),
  cached_input_tokens: countSchema,
  output_tokens: countSchema,
  cost: z.number().describe('US dollars.'),
};
export const budgetSchema = z.object({
  quota: z.string(),
  scope: z.enum(quotaScopes),
  amount: z.number().describe('The limit, with what people have added.'),
  currency: z.enum(budgetCurrencies),
  period: z.enum(budgetPeriods),
  spent: z.number(),
  reserved: z.number().describe('What the service holds for calls, beyond that.'),
  resets_at: timestampSchema,
});
const usageSchema = z.object({
  items: z
    .array(z.object({ key: z.string(), ...sums }))
    .describe(
      'By day in their order, else the dearest first. The key other has the sums of those for which a record has no room.',
    ),
  total: z.object(sums),
  budget: budgetSchema
    .nullable()
    .describe('Of the budgets that hold, the one with the least share left; null: none.'),
});
export type UsageRecordOfOwner = z.output<typeof usageSchema>;

const sumsOf = ({ key: _key, cost, ...counts }: UsageItem) => ({ ...counts, cost: Number(cost) });

/** The amount of a budget as a number: US dollars, or tokens. */
const numberOf = (amount: number, unit: BudgetCurrency): number =>
  unit === 'USD' ? amount / 1e9 : amount;

export type OwnBudget = BudgetAccount & { readonly use: BudgetUse };

const shareLeft = ({ use: { limit, spent, reserved } }: OwnBudget): number =>
  1 - (spent + reserved) / limit;

export const presentBudget = ({
  quota,
  unit,
  endsAtMs,
  use,
}: OwnBudget): z.output<typeof budgetSchema> => ({
  quota: quota.quotaName,
  scope: quota.scope,
  amount: numberOf(use.limit, unit),
  currency: unit,
  period: quota.period,
  spent: numberOf(use.spent, unit),
  reserved: numberOf(use.reserved, unit),
  resets_at: wireTime(endsAtMs),
});

/** The budget of an owner with the least share left, from the caches only. */
export function tightestBudget(lookup: ResourceLookup, owner: string, nowMs: number) {
  const [first] = lookup
    .budgetsOf(owner, nowMs)
    .toSorted((one, other) => shareLeft(one) - shareLeft(other));
  return first === undefined ? null : presentBudget(first);
}

/** The first budget of an owner with this policy that the caches show as exhausted. */
function exhaustedBudget(
  lookup: ResourceLookup,
  owner: string,
  { nowMs, policy }: { readonly nowMs: number; readonly policy: QuotaBudget['onExceeded'] },
): OwnBudget | undefined {
  const all = lookup.budgetsOf(owner, nowMs).filter(({ quota }) => quota.onExceeded === policy);
  if (all.length === 0) return undefined;
  const { conversations } = lookup.holdingsOf(owner);
  const refusals = conversations.map(({ status }) => status?.budgetExhaustion);
  return all.find((budget) => isExhausted(budget.use, hasRefused(budget, budget.use, refusals)));
}

const whose = ({ quota }: BudgetAccount): string =>
  quota.scope === 'Owner' ? 'your' : 'the common';

const remedyOf = ({ endsAtMs }: BudgetAccount): string =>
  `It starts again at ${shownMinute(endsAtMs)}; an admin can raise it.`;

/** Throws 429 if a budget with the policy Reject is exhausted in the cache. */
export function refuseExhaustedBudget(lookup: ResourceLookup, owner: string, nowMs: number): void {
  const exhausted = exhaustedBudget(lookup, owner, { nowMs, policy: 'Reject' });
  if (exhausted === undefined) return;
  const { quota, unit, use } = exhausted;
  const [limit, current] = [numberOf(use.limit, unit), numberOf(use.spent, unit)];
  throw new ProblemError(
    'budget-exhausted',
    `Of ${whose(exhausted)} budget for models of ${shownAmount(use.limit, unit)} a ${quota.period.toLowerCase()}, ${shownSpent(use.spent, unit)} are spent. ${remedyOf(exhausted)}`,
    { usage: { limit, current } },
  );
}

/** The outcome of one more start whose budget is exhausted, and why, according to the caches. */
export function startWithoutBudget(
  lookup: ResourceLookup,
  owner: string,
  nowMs: number,
):
  | {
      readonly outcome: 'rejected' | 'waits';
      readonly rule: Pick<QuotaBudget, 'quotaName'>;
      readonly reason: string;
    }
  | undefined {
  const refusing = exhaustedBudget(lookup, owner, { nowMs, policy: 'Reject' });
  const exhausted = refusing ?? exhaustedBudget(lookup, owner, { nowMs, policy: 'Queue' });
  if (exhausted === undefined) return undefined;
  const [outcome, what] =
    refusing === undefined ? (['waits', 'wait'] as const) : (['rejected', 'be refused'] as const);
  const reason = `The start would ${what}: ${whose(exhausted)} budget for models is used up. ${remedyOf(exhausted)}`;
  return { outcome, rule: exhausted.quota, reason };
}

const invalid = (field: 'from' | 'to', message: string): ProblemError =>
  new ProblemError('invalid-request', `The parameter ${field} ${message}.`, {
    errors: [{ path: `query.${field}`, message }],
  });

/** The months that have a day in the range, in order. */
function monthsOf(from: string, to: string): readonly string[] {
  const months = [];
  const last = Date.parse(`${to}T00:00:00Z`);
  for (
    let at = new Date(`${from.slice(0, 7)}-01T00:00:00Z`);
    at.getTime() <= last;
    at.setUTCMonth(at.getUTCMonth() + 1)
  )
    months.push(at.toISOString().slice(0, 7));
  return months;
}

function rangeOf({ from, to }: z.output<typeof querySchema>, nowMs: number) {
  const last = to ?? dayOf(nowMs);
  const first = from ?? (to ?? dayOf(nowMs)).slice(0, 'YYYY-MM-'.length) + '01';
  if (first > last) {
    if (from === undefined) throw invalid('to', 'must not be before the first day of its month');
    throw invalid(
      'from',
      `must not be after ${to === undefined ? 'today' : 'to'}, which is ${last}`,
    );
  }
  const days = (Date.parse(last) - Date.parse(first)) / dayMs + 1;
  if (days > maxDays)
    throw invalid('from', `must be at most ${maxDays} days before to; these are ${days}`);
  return { from: first, to: last };
}

export interface UsageReads {
  readonly client: Pick<KubeClient, 'get'>;
  readonly namespace: string;
  readonly clock: Pick<Clock, 'now'>;
  readonly lookup: ResourceLookup;
}

/** The sums of an owner by month, from the API server: caches have no sums by day. */
const sumsByMonth = async (
  { client, namespace }: UsageReads,
  owner: string,
  months: readonly string[],
) =>
  (
    await mapLimited(months, async (month) => {
      const subject = { owner, month };
      const name = usageRecordNameOf(subject);
      const record = await found(client.get(usageRecords, namespace, name));
      return record !== undefined && isUsageRecordOf(record, subject)
        ? [{ month, sums: record.status ?? {} }]
        : [];
    })
  ).flat();

const { get } = endpoints('account');

export const usageRoutes = (reads: UsageReads): readonly Route[] => [
  get('/api/v1/usage', 'getUsage', {
    summary: 'Calls of models and their cost, in groups; with Accept: text/csv as CSV',
    query: querySchema,
    responses: { 200: usageSchema },
    problems: ['forbidden'],
    hasCsv: true,
    handle: async ({ owner: own, principal, query, response }) => {
      const { lookup, namespace, clock } = reads;
      const owner = query.owner ?? own;
      if (owner !== own && principal.role !== 'admin') throw onlyAdmin('read the usage of others');
      const { from, to } = rangeOf(query, clock.now());
      const { group_by: groupBy } = query;
      const records = await sumsByMonth(reads, owner, monthsOf(from, to));
      const { items: named, total } = groupUsage(records, { from, to, groupBy });
      const items =
        groupBy === 'conversation'
          ? named.map((item) => ({ ...item, key: idOf(item.key, namespace) }))
          : named;
      if (response.req.accepts(['application/json', 'text/csv']) === 'text/csv') {
        const headers = { 'content-type': 'text/csv; charset=utf-8', vary: 'Accept' };
        const body = Buffer.from(toCsv(items));
        sendBytes(response, headers, body);
        return { sentBytes: body.length };
      }
      return {
        json: {
          items: items.map((item) => ({ key: item.key, ...sumsOf(item) })),
          total: sumsOf(total),
          budget: tightestBudget(lookup, owner, clock.now()),
        } satisfies UsageRecordOfOwner,
      };
    },
  }),
];

/** The REST id of a conversation that a record names. */
const idOf = (name: string, namespace: string): string =>
  name === otherUsage
    ? name
    : conversationIdOf({ metadata: { name, namespace } } as Parameters<typeof conversationIdOf>[0]);
