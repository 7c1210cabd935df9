import type {
  ConversationUsage,
  UsageBudget,
  UsageCounters,
  UsageItem,
  UsageReport,
} from '../../src/web/wire.ts';

export const counters = (fields: Partial<UsageCounters> = {}): UsageCounters => ({
  calls: 0,
  input_tokens: 0,
  cached_input_tokens: 0,
  output_tokens: 0,
  cost: 0,
  ...fields,
});

export const anItem = (key: string, fields: Partial<UsageCounters> = {}): UsageItem => ({
  key,
  ...counters(fields),
});

/** The usage of a conversation that has called two models. */
export const aConversationUsage = (fields: Partial<ConversationUsage> = {}): ConversationUsage => ({
  ...counters({
    calls: 31,
    input_tokens: 90_000,
    cached_input_tokens: 56_000,
    output_tokens: 4_000,
    cost: 0.42,
  }),
  currency: 'USD',
  by_model: [
    {
      model: 'openai/gpt-5-mini',
      ...counters({ calls: 1, input_tokens: 10_000, output_tokens: 100, cost: 0.004 }),
    },
    {
      model: 'anthropic/claude-sonnet-4-5',
      ...counters({
        calls: 30,
        input_tokens: 80_000,
        cached_input_tokens: 56_000,
        output_tokens: 3_900,
        cost: 0.416,
      }),
    },
  ],
  ...fields,
});

/** A budget of $50 for a month, of which $34 are spent. */
export const aBudget = (fields: Partial<UsageBudget> = {}): UsageBudget => ({
  quota: 'default',
  scope: 'Owner',
  amount: 50,
  currency: 'USD',
  period: 'Month',
  spent: 34,
  reserved: 0,
  resets_at: '2026-12-01T00:00:00.000000Z',
  ...fields,
});

const sumOf = (items: readonly UsageItem[], field: keyof UsageCounters): number =>
  items.reduce((sum, item) => sum + item[field], 0);

/** A report whose total is the sum of its items. */
export const aUsageReport = (
  items: readonly UsageItem[] = [],
  budget: UsageBudget | null = null,
): UsageReport => ({
  items: [...items],
  total: {
    calls: sumOf(items, 'calls'),
    input_tokens: sumOf(items, 'input_tokens'),
    cached_input_tokens: sumOf(items, 'cached_input_tokens'),
    output_tokens: sumOf(items, 'output_tokens'),
    cost: sumOf(items, 'cost'),
  },
  budget,
});
