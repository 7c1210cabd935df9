import {
  amountOf,
  cachedPart,
  count,
  money,
  spendingIn,
  spendingOf,
  spendingTexts,
} from '../../../src/web/money.ts';
import { aConversation } from '../../support/page-records.ts';
import { aConversationUsage, counters } from '../../support/page-usage.ts';

describe('an amount in dollars', () => {
  it.each([
    ['nothing', 0, '$0.00'],
    ['a billionth', 1e-9, '<$0.01'],
    ['just below a cent', 0.009_999, '<$0.01'],
    ['a cent', 0.01, '$0.01'],
    ['cents', 0.416, '$0.42'],
    ['thousands', 1_234_567.891, '$1,234,567.89'],
  ])('shows %s', (_, amount, text) => expect(money(amount)).toBe(text));
});

it('shows an amount of tokens in the unit of its budget', () => {
  expect(amountOf('Tokens', 1_250_000)).toBe('1,250,000 tokens');
  expect(amountOf('USD', 0.001)).toBe('<$0.01');
  expect(count(12_345)).toBe('12,345');
});

it.each([
  [0, 0, '0 %'],
  [0, 100, '0 %'],
  [999, 1000, '99 %'],
  [1000, 1000, '100 %'],
  // A report in which more was cached than sent.
  [20, 10, '100 %'],
])('says which part of the tokens came from the cache: %i of %i', (cached, input, text) =>
  expect(cachedPart(cached, input)).toBe(text),
);

describe('the figures of a conversation', () => {
  it.each([
    [
      'all of them',
      counters({
        calls: 12,
        input_tokens: 9000,
        cached_input_tokens: 3000,
        output_tokens: 70,
        cost: 0.42,
      }),
      ['$0.42', '12 calls', '9,000 tokens in (33 % from the cache), 70 out'],
    ],
    [
      'tokens only, of a model without a price',
      counters({ calls: 1, input_tokens: 900, output_tokens: 7 }),
      ['1 call', '900 tokens in, 7 out'],
    ],
    ['none before the first call', counters(), []],
    [
      'never zero for what has cost something',
      counters({ calls: 1, cost: 1e-7 }),
      ['<$0.01', '1 call'],
    ],
  ])('are %s', (_, usage, texts) => expect(spendingTexts(spendingIn(usage))).toEqual(texts));

  it('are those of the relay, also where the agent reports its own', () => {
    const metrics = {
      accumulated_cost: 7,
      accumulated_token_usage: { prompt_tokens: 5, completion_tokens: 6 },
    };
    expect(spendingOf(aConversation(1, { metrics }))).toEqual({
      cost: 7,
      inputTokens: 5,
      outputTokens: 6,
    });
    const usage = aConversationUsage();
    expect(spendingOf({ ...aConversation(1, { metrics }), usage })?.cost).toBe(0.42);
    expect(spendingOf({ ...aConversation(1), usage: null })).toBeUndefined();
    expect(spendingOf(undefined)).toBeUndefined();
  });
});
