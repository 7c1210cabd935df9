import type { ConversationRecord, UsageBudget, UsageCounters } from './wire.ts';

const dollars = new Intl.NumberFormat('en', { style: 'currency', currency: 'USD' });
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat('en', { notation: 'compact' });

/** Minimum amount that two decimals can show. */
const minShown = 0.01;

/** An amount in US dollars. An amount below a cent is never shown as zero. */
export const money = (amount: number): string =>
  amount > 0 && amount < minShown ? '<$0.01' : dollars.format(amount);

export const count = (value: number): string => whole.format(value);
/** A number in at most five characters, such as `94K`. */
export const shortCount = (value: number): string => compact.format(value);

/** An amount in the unit of a budget. */
export const amountOf = (currency: UsageBudget['currency'], amount: number): string =>
  currency === 'USD' ? money(amount) : `${count(amount)} tokens`;

/** The used part of an amount, such as `$34.00 of $50.00`. */
export const usedOf = (currency: UsageBudget['currency'], used: number, amount: number): string =>
  `${currency === 'USD' ? money(used) : count(used)} of ${amountOf(currency, amount)}`;

/** Sums over the calls of a conversation; absent figures are unknown. */
export interface Spending {
  readonly cost: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cachedTokens?: number;
  readonly calls?: number;
}

export const spendingIn = (counters: UsageCounters): Spending => ({
  cost: counters.cost,
  inputTokens: counters.input_tokens,
  outputTokens: counters.output_tokens,
  cachedTokens: counters.cached_input_tokens,
  calls: counters.calls,
});

/** Figures of the relay, else those that the agent reports; undefined if neither is known. */
export function spendingOf(conversation: ConversationRecord | undefined): Spending | undefined {
  if (conversation === undefined) return undefined;
  const { usage, metrics } = conversation;
  if (usage !== null) return spendingIn(usage);
  if (metrics === null) return undefined;
  const { prompt_tokens: inputTokens, completion_tokens: outputTokens } =
    metrics.accumulated_token_usage;
  return { cost: metrics.accumulated_cost, inputTokens, outputTokens };
}

/** The part of the tokens that a model has read from its cache, such as `62 %`. */
export const cachedPart = (cached: number, input: number): string =>
  `${Math.floor((100 * Math.min(cached, input)) / Math.max(1, input))} %`;

/** The figures as texts. Without a price, there are only the tokens. */
export function spendingTexts(spending: Spending): readonly string[] {
  const { cost, calls = 0, inputTokens, outputTokens, cachedTokens = 0 } = spending;
  const cached =
    cachedTokens > 0 ? ` (${cachedPart(cachedTokens, inputTokens)} from the cache)` : '';
  return [
    ...(cost > 0 ? [money(cost)] : []),
    ...(calls > 0 ? [`${count(calls)} ${calls === 1 ? 'call' : 'calls'}`] : []),
    ...(inputTokens + outputTokens > 0
      ? [`${count(inputTokens)} tokens in${cached}, ${count(outputTokens)} out`]
      : []),
  ];
}
