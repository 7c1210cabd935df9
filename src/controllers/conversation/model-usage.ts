import { formatAmount, parseAmount, sumOf } from '../../budget/money.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { ConversationUsage } from '../../resources/conversation-status.ts';
import { maxUsageModels } from '../../resources/usage-counters.ts';
import {
  otherUsage,
  type CachedUsageRecord,
  type UsageCounters,
} from '../../resources/usage-record.ts';
import { byUsageConversation, type Stores, type WatchedCaches } from '../caches.ts';
import type { EventSource } from '../controller-spec.ts';
import type { Request } from '@conversation-operator/kube/controller';

type Entry = NonNullable<NonNullable<CachedUsageRecord['status']>['conversations']>[number];
type Conversation = Pick<CachedConversation, 'metadata' | 'spec' | 'status'>;

const nothing: UsageCounters = {
  calls: 0,
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  cost: '0',
};

type Combine = (one: number, other: number) => number;

const combined = (one: UsageCounters, other: UsageCounters, of: Combine): UsageCounters => ({
  calls: of(one.calls, other.calls),
  inputTokens: of(one.inputTokens, other.inputTokens),
  cachedInputTokens: of(one.cachedInputTokens, other.cachedInputTokens),
  outputTokens: of(one.outputTokens, other.outputTokens),
  cost: formatAmount(of(parseAmount(one.cost, 'USD'), parseAmount(other.cost, 'USD')), 'USD'),
});

/** Combines sums by model. Those without room count for the model `other`. */
function combinedModels(
  lists: readonly ConversationUsage['byModel'][],
  of: Combine,
): ConversationUsage['byModel'] {
  const models = new Map<string, UsageCounters>();
  for (const { model, ...counters } of lists.flat()) {
    const hasRoom = models.has(model) || models.size < maxUsageModels - 1;
    const key = hasRoom ? model : otherUsage;
    models.set(key, combined(models.get(key) ?? nothing, counters, of));
  }
  return [...models]
    .map(([model, counters]) => ({ model, ...counters }))
    .sort((one, other) => (one.model < other.model ? -1 : 1));
}

/**
 * Whether an entry of a record counts for the conversation. The records of other owners count after
 * a handover alone, because another owner may have had a conversation of this name before; and so
 * do entries from before the conversation was created.
 */
const counts = ({ metadata, spec }: Conversation, record: CachedUsageRecord, entry: Entry) =>
  entry.name === metadata.name &&
  (record.spec.owner === spec.owner || (spec.handovers ?? 0) > 0) &&
  entry.lastDay >= metadata.creationTimestamp.slice(0, 'YYYY-MM-DD'.length);

/**
 * The usage of a conversation: the sum over the UsageRecords of its owners, and never less than
 * what the status has, because a record may have lost the entry to `other`.
 */
export function usageOf(
  conversation: Conversation,
  records: readonly CachedUsageRecord[],
): ConversationUsage | undefined {
  const entries = records
    .filter(({ spec }) => spec.scope === 'Owner')
    .flatMap((record) =>
      (record.status?.conversations ?? []).filter((entry) => counts(conversation, record, entry)),
    );
  const { usage: stored } = conversation.status ?? {};
  if (entries.length === 0) return stored;
  const add: Combine = (one, other) => sumOf(one, other);
  const byModel = combinedModels(
    entries.map(({ models }) => models),
    add,
  );
  const sum = entries.reduce<UsageCounters>((total, entry) => combined(total, entry, add), nothing);
  const { byModel: storedModels = [], ...storedSum } = stored ?? {};
  return {
    ...combined(sum, { ...nothing, ...storedSum }, Math.max),
    byModel: combinedModels([byModel, storedModels], Math.max),
  };
}

/** The usage of a conversation by the cached records. */
export function cachedUsageOf(
  conversation: Conversation,
  records: Stores['usageRecords'],
): ConversationUsage | undefined {
  const { namespace, name } = conversation.metadata;
  return usageOf(conversation, records.byIndex(byUsageConversation, `${namespace}/${name}`));
}

const isEqual = (one: Entry, other: Entry | undefined): boolean =>
  one.calls === other?.calls &&
  one.inputTokens === other.inputTokens &&
  one.outputTokens === other.outputTokens &&
  one.cost === other.cost;

/** Requests for the conversations whose entries in a record have changed. */
export const usageSource =
  (
    { usageRecords, conversations }: Pick<WatchedCaches, 'usageRecords' | 'conversations'>,
    isMine: (request: Request) => boolean,
  ): EventSource =>
  (queue) => {
    const enqueue = (record: CachedUsageRecord, old?: CachedUsageRecord): void => {
      const { namespace } = record.metadata;
      const before = new Map((old?.status?.conversations ?? []).map((each) => [each.name, each]));
      for (const entry of record.status?.conversations ?? []) {
        const request = { namespace, name: entry.name };
        if (isEqual(entry, before.get(entry.name))) continue;
        if (conversations.store.get(namespace, entry.name) !== undefined && isMine(request))
          queue.enqueueAfter(request, 0);
      }
    };
    return usageRecords.addHandler({ added: (record) => enqueue(record), updated: enqueue });
  };
