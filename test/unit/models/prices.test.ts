import { PriceBook, type PriceOverride } from '../../../src/models/prices.ts';
import type { TokenUsage } from '../../../src/models/usage.ts';

const usage: TokenUsage = {
  inputTokens: 1_000_000,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
};
const anOverride = (override: Partial<PriceOverride> = {}): PriceOverride => ({
  model: '*',
  inputPerMillion: 7,
  outputPerMillion: 9,
  ...override,
});
const dollars = (
  book: PriceBook,
  model: string,
  overrides?: readonly PriceOverride[],
  of: Partial<TokenUsage> = {},
) => {
  const price = book.priceOf({ model, baseUrl: undefined, overrides });
  return price && price.cost({ ...usage, ...of }, 0) / 1e9;
};

describe('the price of a model', () => {
  const book = new PriceBook([anOverride({ model: 'gpt-5*', inputPerMillion: 3 })]);

  it.each<[string, string, readonly PriceOverride[] | undefined, number | undefined]>([
    ['is that of the library', 'gpt-4o', undefined, 2.5],
    ['is that of the installation before the library', 'gpt-5', undefined, 3],
    ['is that of the template before both', 'gpt-5', [anOverride()], 7],
    [
      'is that of the first pattern',
      'gpt-5',
      [anOverride({ inputPerMillion: 1 }), anOverride()],
      1,
    ],
    ['is not that of another pattern', 'gpt-4o', [anOverride({ model: 'gpt-5' })], 2.5],
    ['is that of a pattern in other letters', 'GPT-5', [anOverride({ model: 'Gpt-5' })], 7],
    [
      'is that of a pattern with `models/`',
      'gemini-x',
      [anOverride({ model: 'models/gemini-*' })],
      7,
    ],
    [
      'is that of a fine-tuned model',
      'ft:gpt-4o-2024-08-06:people::id',
      [anOverride({ model: 'ft:*' })],
      7,
    ],
    ['is 0 where an override says so', 'qwen', [anOverride({ inputPerMillion: 0 })], 0],
    ['is unknown, not 0, without any', 'qwen-of-ours', undefined, undefined],
    ['is unknown for a name of any length', 'gpt-4o'.repeat(1000), undefined, undefined],
  ])('%s', (_what, model, overrides, expected) => {
    expect(dollars(book, model, overrides)).toBe(expected);
  });

  it('is that of input for cached tokens of an override that does not say another', () => {
    const cached = { cachedInputTokens: 1_000_000 };
    expect(dollars(book, 'x', [anOverride()], cached)).toBe(7);
    expect(dollars(book, 'x', [anOverride({ cachedInputPerMillion: 1 })], cached)).toBe(1);
    const written = { cacheWriteTokens: 1_000_000 };
    expect(dollars(book, 'x', [anOverride()], written)).toBe(7);
    expect(dollars(book, 'x', [anOverride({ cacheWritePerMillion: 8 })], written)).toBe(8);
  });

  it('is the same object for the same name, so that a name is looked up once', () => {
    const priceOf = (model: string) => book.priceOf({ model, baseUrl: undefined });
    expect(priceOf('gpt-4o')).toBe(priceOf('gpt-4o'));
    expect(priceOf('no-such')).toBeUndefined();
    expect(priceOf('no-such')).toBeUndefined();
  });
});

describe('the context window', () => {
  const windowOf = (model: string, overrides?: readonly PriceOverride[]) =>
    new PriceBook().priceOf({ model, baseUrl: undefined, overrides })?.contextWindow;

  it.each<[string, string, readonly PriceOverride[] | undefined, number | undefined]>([
    ['is that of the library', 'gpt-5', undefined, 400_000],
    ['is that of the library under an override', 'gpt-5', [anOverride()], 400_000],
    ['is that of the override', 'gpt-5', [anOverride({ contextWindow: 5 })], 5],
    ['is unknown for other models', 'ours', [anOverride()], undefined],
    ['is no less than where a tier begins', 'claude-sonnet-4-5', undefined, 1_000_000],
  ])('%s', (_what, model, overrides, expected) => {
    expect(windowOf(model, overrides)).toBe(expected);
  });
});
