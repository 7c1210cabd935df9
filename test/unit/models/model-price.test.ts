import { calcPrice, waitForUpdate } from '@pydantic/genai-prices';
import fc from 'fast-check';
import { maxAmount } from '../../../src/budget/money.ts';
import { libraryPriceOf, type ModelPrice } from '../../../src/models/model-price.ts';
import { PriceBook } from '../../../src/models/prices.ts';
import type { TokenUsage } from '../../../src/models/usage.ts';

const nowMs = Date.parse('2026-11-15T12:00:00Z');
const book = new PriceBook();
const priceOf = (model: string): ModelPrice => {
  const price = book.priceOf({ model, baseUrl: undefined });
  if (price === undefined) throw new Error(`${model} has no price`);
  return price;
};
const used = (usage: Partial<TokenUsage>): TokenUsage => ({
  inputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  ...usage,
});
const million = 1_000_000;
const dollar = 1_000_000_000;

const library = await waitForUpdate();
const models = (library ?? []).flatMap((provider) =>
  provider.models.map((model) => {
    const price = libraryPriceOf({ name: model.id, provider, model });
    return { provider, model, price, name: `${provider.id}/${model.id}` };
  }),
);
const priced = models.flatMap(({ price, ...rest }) => (price ? [{ ...rest, price }] : []));

const usageUpTo = (maxInput: number, maxOutput: number): fc.Arbitrary<TokenUsage> =>
  fc
    .record({
      inputTokens: fc.nat(maxInput),
      outputTokens: fc.nat(maxOutput),
      cached: fc.double({ min: 0, max: 1, noNaN: true }),
      written: fc.double({ min: 0, max: 1, noNaN: true }),
      hour: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
    })
    .map(({ inputTokens, outputTokens, cached, written, hour }) => {
      const cachedInputTokens = Math.floor(inputTokens * cached);
      const cacheWriteTokens = Math.floor((inputTokens - cachedInputTokens) * written);
      return {
        inputTokens,
        outputTokens,
        cachedInputTokens,
        cacheWriteTokens,
        ...(hour === null ? {} : { hourCacheWriteTokens: Math.floor(cacheWriteTokens * hour) }),
      };
    });
/** Times around changes of prices by date and by time of day. */
const someTime = fc.integer({
  min: Date.parse('2025-01-01T00:00:00Z'),
  max: Date.parse('2027-01-01T00:00:00Z'),
});

it('most models of the library have a price', () => {
  expect(priced.length).toBeGreaterThan(1400);
});

it('the worst case is at least the cost of every call within it, for each model', () => {
  for (const { name, price } of priced)
    fc.assert(
      fc.property(
        fc
          .nat(1_500_000)
          .chain((maxInputTokens) =>
            fc
              .nat(200_000)
              .chain((maxOutputTokens) =>
                fc.record({
                  bound: fc.constant({ maxInputTokens, maxOutputTokens }),
                  usage: usageUpTo(maxInputTokens, maxOutputTokens),
                }),
              ),
          ),
        fc.boolean(),
        someTime,
        fc.nat(60 * 60_000),
        ({ bound, usage }, isTextOnly, atMs, laterMs) => {
          const worst = price.worst({ ...bound, isTextOnly }, atMs);
          const cost = price.cost(usage, atMs + laterMs, isTextOnly);
          if (cost > worst) throw new Error(`${name} costs ${String(cost)} > ${String(worst)}`);
        },
      ),
      { numRuns: 25 },
    );
});

it('the worst case is at most twice the cost of a call without a cache, for each model', () => {
  for (const { name, price } of priced) {
    const bound = { maxInputTokens: 1000, maxOutputTokens: 1000, isTextOnly: true };
    const plain = used({ inputTokens: 1000, outputTokens: 1000 });
    const ratio = price.worst(bound, nowMs) / price.cost(plain, nowMs, true);
    expect([name, ratio <= 2]).toEqual([name, true]);
  }
});

it('the cost is that of the library, rounded up, for each model of text', () => {
  const ofText = priced.filter(
    ({ model }) => !/_(audio|image|video)_/.test(JSON.stringify(model.prices)),
  );
  expect(ofText.length).toBeGreaterThan(1400);
  for (const { provider, model, price, name } of ofText)
    fc.assert(
      fc.property(usageUpTo(1_500_000, 200_000), someTime, (usage, atMs) => {
        const expected = calcPrice(
          {
            input_tokens: usage.inputTokens,
            cache_read_tokens: usage.cachedInputTokens,
            cache_write_tokens: usage.cacheWriteTokens,
            output_tokens: usage.outputTokens,
          },
          model.id,
          { provider: { ...provider, models: [model] }, timestamp: new Date(atMs) },
        );
        if (expected === null) throw new Error(`the library does not find ${name}`);
        const nanos = expected.total_price * dollar;
        const cost = price.cost({ ...usage, hourCacheWriteTokens: 0 }, atMs, true);
        // Prices per token are rounded up to 1e-12 USD.
        if (cost < nanos * (1 - 1e-12) || cost > nanos * 1.000_02 + 1)
          throw new Error(`${name}: ${String(cost)} is not ${String(nanos)}`);
      }),
      { numRuns: 5 },
    );
});

describe('the cost of a call', () => {
  it.each<[string, string, Partial<TokenUsage>, number]>([
    ['gpt-5', 'input', { inputTokens: million }, 1.25],
    ['gpt-5', 'output', { outputTokens: million }, 10],
    ['gpt-5', 'cached input', { inputTokens: million, cachedInputTokens: million }, 0.125],
    [
      'claude-haiku-4-5',
      'a cache write of five minutes',
      { inputTokens: million, cacheWriteTokens: million, hourCacheWriteTokens: 0 },
      1.25,
    ],
    [
      'claude-haiku-4-5',
      'a cache write of an hour',
      { inputTokens: million, cacheWriteTokens: million, hourCacheWriteTokens: million },
      2,
    ],
    [
      'claude-haiku-4-5',
      'a cache write of unknown length, at the higher price',
      { inputTokens: million, cacheWriteTokens: million },
      2,
    ],
    [
      'openrouter/anthropic/claude-haiku-4.5',
      'a cache write of an hour, of which the library has no price',
      { inputTokens: million, cacheWriteTokens: million },
      2,
    ],
    ['gemini-2.5-pro', 'up to 200,000 tokens', { inputTokens: 200_000 }, 0.25],
    ['gemini-2.5-pro', 'a tier that counts', { inputTokens: 200_001 }, 0.500_002_5],
    [
      'gemini-2.5-pro',
      'output of the tier of the input',
      { inputTokens: 400_000, outputTokens: 100_000 },
      1 + 1.5,
    ],
    [
      'gemini-2.5-pro',
      'a tier reached by cached tokens',
      { inputTokens: 400_000, cachedInputTokens: 400_000 },
      0.1,
    ],
    ['gpt-5.4', 'less than 272,000 tokens', { inputTokens: 271_999 }, 0.679_997_5],
    ['gpt-5.4', '272,000 tokens', { inputTokens: 272_000 }, 1.36],
  ])('%s: %s', (model, _what, usage, dollars) => {
    expect(priceOf(model).cost(used(usage), nowMs)).toBe(Math.round(dollars * dollar));
  });

  it('is rounded up to a whole nano', () => {
    const cached = used({ inputTokens: 1, cachedInputTokens: 1 });
    expect(priceOf('gpt-5-nano').cost(cached, nowMs)).toBe(5);
    expect(priceOf('deepseek-v4-flash').cost(cached, nowMs)).toBe(7);
    const odd = new PriceBook([
      { model: 'odd', inputPerMillion: 0.000_000_001, outputPerMillion: 0.0015 },
    ]).priceOf({ model: 'odd', baseUrl: undefined });
    expect(odd?.cost(used({ inputTokens: 1 }), nowMs)).toBe(1);
    expect(odd?.cost(used({ outputTokens: 1 }), nowMs)).toBe(2);
  });

  it('follows the time of day and the date', () => {
    const price = priceOf('deepseek-v4-flash');
    const at = (time: string) => price.cost(used({ inputTokens: million }), Date.parse(time));
    expect(at('2026-08-16T02:00:00Z')).toBe(0.44 * dollar);
    expect(at('2026-08-18T05:00:00Z')).toBe(0.22 * dollar);
    expect(at('2026-11-15T06:00:00Z')).toBe(0.44 * dollar);
    expect(at('2026-11-15T10:00:00Z')).toBe(0.22 * dollar);
  });

  it('has the price of audio where the input may be audio', () => {
    const price = priceOf('gemini-2.5-flash');
    expect(price.cost(used({ inputTokens: million }), nowMs, true)).toBe(0.3 * dollar);
    expect(price.cost(used({ inputTokens: million }), nowMs)).toBe(dollar);
  });

  it('is bounded where a usage says more tokens than there are', () => {
    const price = priceOf('gpt-5');
    expect(price.cost(used({ outputTokens: 1e308 }), nowMs)).toBe(maxAmount);
    // More cached tokens than input tokens count as input.
    expect(price.cost(used({ inputTokens: 1, cachedInputTokens: million }), nowMs)).toBe(
      0.125 * dollar,
    );
  });
});

describe('the worst case of a call', () => {
  const worst = (model: string, maxInputTokens: number, time = '2026-11-15T12:00:00Z') =>
    priceOf(model).worst(
      { maxInputTokens, maxOutputTokens: 0, isTextOnly: true },
      Date.parse(time),
    );

  it('is at the highest tier that the input can reach', () => {
    expect(worst('gemini-2.5-pro', 200_000)).toBe(0.25 * dollar);
    expect(worst('gemini-2.5-pro', 200_001)).toBe(500_002_500);
  });

  it('is that of a cache write where one costs more than input', () => {
    expect(worst('claude-haiku-4-5', million)).toBe(2 * dollar);
  });

  it('is that of the dearer hours within the next hour, and not of later ones', () => {
    expect(worst('deepseek-v4-flash', million, '2026-11-15T00:00:00Z')).toBe(0.44 * dollar);
    expect(worst('deepseek-v4-flash', million, '2026-11-15T10:30:00Z')).toBe(0.22 * dollar);
  });
});

describe('a model of the library has no price', () => {
  const isPriced = (name: string) =>
    models.some((model) => model.name === name && model.price !== undefined);

  it.each([
    ['which is said to be free', 'openai/moderation'],
    ['which is free up to a limit', 'azure/phi-4-reasoning:free'],
    ['whose output has no price', 'openai/text-embedding-3-small'],
    ['which charges by request', 'perplexity/sonar'],
    ['which charges by the hour', 'openai/whisper-1'],
    ['which charges for tokens that usage does not have', 'perplexity/sonar-deep-research'],
  ])('%s', (_what, name) => {
    expect(models.some((model) => model.name === name)).toBe(true);
    expect(isPriced(name)).toBe(false);
  });

  it('with a price of 0', () => {
    const [first] = models;
    if (first === undefined) throw new Error('the library has no model');
    const { provider, model } = first;
    const priceWith = (prices: typeof model.prices) =>
      libraryPriceOf({ name: model.id, provider, model: { ...model, prices } });
    expect(priceWith({ input_mtok: 1, output_mtok: 1 })).toBeDefined();
    expect(priceWith({ input_mtok: 1, output_mtok: 0 })).toBeUndefined();
    expect(priceWith({ input_mtok: 1, output_mtok: 1, cache_read_mtok: 0 })).toBeUndefined();
    const tiers = { base: 1, tiers: [{ start: 10, price: 0 }] };
    expect(priceWith({ input_mtok: tiers, output_mtok: 1 })).toBeUndefined();
  });
});

it('the prices of a time of day hold for at least the ten minutes that the worst case looks for', () => {
  const minutesOf = (time: string) => {
    const [hours = 0, minutes = 0] = time.split(':').map((part) => parseInt(part, 10));
    return hours * 60 + minutes;
  };
  const day = 24 * 60;
  const lengths = priced.flatMap(({ model }) =>
    (Array.isArray(model.prices) ? model.prices : []).flatMap(({ constraint }) =>
      constraint?.type === 'time_of_date'
        ? [(minutesOf(constraint.end_time) - minutesOf(constraint.start_time) + day) % day]
        : [],
    ),
  );
  expect(lengths.length).toBeGreaterThan(0);
  expect(Math.min(...lengths)).toBeGreaterThanOrEqual(10);
});
