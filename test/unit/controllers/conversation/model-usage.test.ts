import type { ConversationUsage } from '../../../../src/resources/conversation-status.ts';
import type { CachedUsageRecord } from '../../../../src/resources/usage-record.ts';
import { usageOf, usageSource } from '../../../../src/controllers/conversation/model-usage.ts';
import { usageRecords } from '../../../../src/resources/usage-record.ts';
import { apiVersion } from '../../../../src/resources/group.ts';
import { aConversation, metadata } from '../../../support/builders.ts';
import { cachedConversation } from '../../../../src/resources/cached-conversation.ts';
import { TestCache } from '../../../support/test-cache.ts';

const sums = (calls: number, cost: string) => ({
  calls,
  inputTokens: calls * 10,
  cachedInputTokens: calls,
  outputTokens: calls * 2,
  cost,
});
type Entry = NonNullable<NonNullable<CachedUsageRecord['status']>['conversations']>[number];
const entry = (calls: number, cost: string, more: Partial<Entry> = {}): Entry => ({
  name: 'one',
  ...sums(calls, cost),
  lastDay: '2999-01-01',
  models: [{ model: 'm', ...sums(calls, cost) }],
  ...more,
});
const record = (owner: string, month: string, ...entries: readonly Entry[]): CachedUsageRecord => ({
  apiVersion,
  kind: usageRecords.kind,
  metadata: metadata(`usage-${month}-${owner}`),
  spec: { scope: 'Owner', owner, month },
  status: { conversations: [...entries] },
});
const usage = (calls: number, cost: string): ConversationUsage => ({
  ...sums(calls, cost),
  byModel: [{ model: 'm', ...sums(calls, cost) }],
});
const conversation = ({
  stored,
  handovers,
}: { readonly stored?: ConversationUsage; readonly handovers?: number } = {}) =>
  cachedConversation(
    aConversation({
      name: 'one',
      spec: { owner: 'alice', ...(handovers === undefined ? {} : { handovers }) },
      status: stored === undefined ? {} : { usage: stored },
    }),
  );

it.each<
  [string, Parameters<typeof conversation>[0], CachedUsageRecord[], ConversationUsage | undefined]
>([
  ['nothing without a record', {}, [], undefined],
  [
    'nothing without an entry',
    {},
    [record('alice', '2026-11', entry(1, '1', { name: 'two' }))],
    undefined,
  ],
  [
    'the sum over the months',
    {},
    [record('alice', '2026-11', entry(1, '0.1')), record('alice', '2026-12', entry(2, '0.2'))],
    usage(3, '0.3'),
  ],
  [
    'nothing of another owner, whose conversation had the name before',
    {},
    [record('bob', '2026-11', entry(1, '0.1'))],
    undefined,
  ],
  [
    'that of the old owner after a handover',
    { handovers: 1 },
    [record('bob', '2026-11', entry(1, '0.1')), record('alice', '2026-11', entry(2, '0.2'))],
    usage(3, '0.3'),
  ],
  [
    'nothing from before the conversation was created',
    {},
    [record('alice', '2026-11', entry(1, '0.1', { lastDay: '2001-01-01' }))],
    undefined,
  ],
  [
    'what is stored where a record has lost the entry',
    { stored: usage(5, '0.5') },
    [record('alice', '2026-12', entry(2, '0.2'))],
    usage(5, '0.5'),
  ],
  [
    'what is stored where the cache has no record',
    { stored: usage(5, '0.5') },
    [],
    usage(5, '0.5'),
  ],
])('the usage of a conversation is %s', (_name, of, records, expected) => {
  expect(usageOf(conversation(of), records)).toEqual(expected);
});

it('has at most 20 models, of which the last one has the sum of the others', () => {
  const models = (prefix: string) =>
    Array.from({ length: 15 }, (_, index) => ({
      model: `${prefix}${index + 10}`,
      ...sums(1, '1'),
    }));
  const { byModel = [] } =
    usageOf(conversation(), [
      record('alice', '2026-11', entry(15, '15', { models: models('a') })),
      record('alice', '2026-12', entry(15, '15', { models: models('b') })),
    ]) ?? {};
  expect(byModel).toHaveLength(20);
  expect(byModel.at(-1)).toEqual({ model: 'other', ...sums(11, '11') });
});

it('a record leads to the conversations alone whose entries have changed', () => {
  const caches = {
    usageRecords: new TestCache<CachedUsageRecord>(),
    conversations: new TestCache<ReturnType<typeof conversation>>(),
  };
  for (const name of ['one', 'two', 'three'])
    caches.conversations.set(cachedConversation(aConversation({ name })));
  const requests: string[] = [];
  usageSource(
    caches,
    ({ name }) => name !== 'three',
  )({ enqueueAfter: ({ name }) => void requests.push(name) });
  const two = entry(1, '1', { name: 'two' });
  const three = entry(1, '1', { name: 'three' });
  const unknown = entry(1, '1', { name: 'unknown' });
  caches.usageRecords.set(record('alice', '2026-11', entry(1, '1'), two, three, unknown));
  expect(requests.splice(0)).toEqual(['one', 'two']);
  caches.usageRecords.set(
    record('alice', '2026-11', entry(1, '1'), { ...two, cost: '1.5' }, three),
  );
  expect(requests).toEqual(['two']);
});
