import { calcPrice, type ModelPrice as Prices, type Provider } from '@pydantic/genai-prices';
import { maxAmount } from '../budget/money.ts';
import type { TokenUsage } from './usage.ts';

/** At most these tokens; `isTextOnly`: the body contains no image, audio, video or document. */
export interface TokenBound {
  readonly maxInputTokens: number;
  readonly maxOutputTokens: number;
  readonly isTextOnly?: boolean;
}

export interface ModelPrice {
  /** Tokens of input that the model takes at most, where they are known. */
  readonly contextWindow: number | undefined;
  /**
   * Cost of a call in 1e-9 USD, rounded up. Input that may be other than text is charged at the
   * highest price of its kinds, because usage does not say how much there was of each.
   */
  cost(usage: TokenUsage, atMs: number, isTextOnly?: boolean): number;
  /**
   * At least the cost of every call that begins or ends within an hour after `atMs` and has at most
   * these tokens, whatever part of them is read from a cache or written to one.
   */
  worst(bound: TokenBound, atMs: number): number;
}

/** Prices in 1e-12 USD per token. */
interface Rates {
  readonly input: number;
  readonly cached: number;
  readonly write: number;
  readonly hourWrite: number;
  readonly output: number;
}

const media = ['audio', 'image', 'video'] as const;
/**
 * Prices of the library that this file charges. A price of another key, such as per request, per
 * page or per hour of audio, would be left out of the cost, so that such a model has no price here.
 */
const chargedKeys: ReadonlySet<string> = new Set([
  'input_mtok',
  'cache_read_mtok',
  'cache_write_mtok',
  'cache_write_1h_mtok',
  'output_mtok',
  ...media.flatMap((kind) => [
    `input_${kind}_mtok`,
    `cache_${kind}_read_mtok`,
    `output_${kind}_mtok`,
  ]),
]);
/** Tools that providers run. The relay refuses them under a budget, so they add nothing. */
const keysOfTools: ReadonlySet<string> = new Set([
  'web_searches_kcount',
  'storage_searches_kcount',
]);
const searchStepMs = 10 * 60_000;
const hourMs = 60 * 60_000;

/** Times at which a price may hold that holds for at least ten minutes of the next hour. */
const timesWithinHour = (atMs: number): readonly number[] =>
  Array.from({ length: hourMs / searchStepMs + 1 }, (_, step) => atMs + step * searchStepMs);

/** A price per million tokens in 1e-12 USD per token, rounded up; only a price of 0 is 0. */
function rateOf(perMillion: number): number {
  if (perMillion === 0) return 0;
  const exact = perMillion * 1e6;
  const nearest = Math.round(exact);
  // 0.0028 × 1e6 is not 2,800 in floating-point numbers.
  return Math.max(1, Math.abs(exact - nearest) < exact * 1e-12 ? nearest : Math.ceil(exact));
}

function priceAt(price: Prices[string], inputTokens: number): number | undefined {
  if (typeof price !== 'object') return price;
  // The library keeps tiers in the order of their beginnings, but does not promise that.
  const reached = price.tiers.filter(({ start }) => inputTokens > start);
  return reached.length === 0
    ? price.base
    : reached.reduce((last, tier) => (tier.start > last.start ? tier : last)).price;
}

const beginningsOfTiers = (prices: Prices): readonly number[] =>
  Object.values(prices).flatMap((price) =>
    typeof price === 'object' ? price.tiers.map(({ start }) => start) : [],
  );

/**
 * Prices for a call with this many input tokens. A kind of tokens without a price of its own costs
 * as much as the kind that contains it.
 */
function ratesOf(prices: Prices, inputTokens: number, isTextOnly: boolean, doublesHour: boolean) {
  const at = (key: string) => priceAt(prices[key], inputTokens);
  const text = at('input_mtok') ?? 0;
  const kinds = isTextOnly ? [] : media.filter((kind) => `input_${kind}_mtok` in prices);
  const input = Math.max(text, ...kinds.map((kind) => at(`input_${kind}_mtok`) ?? 0));
  const cached = Math.max(
    at('cache_read_mtok') ?? input,
    ...kinds.map((kind) => at(`cache_${kind}_read_mtok`) ?? at(`input_${kind}_mtok`) ?? 0),
  );
  const write = Math.max(at('cache_write_mtok') ?? input, kinds.length > 0 ? input : 0);
  const hourWrite = at('cache_write_1h_mtok') ?? Math.max(write, doublesHour ? 2 * text : 0);
  const output = Math.max(
    at('output_mtok') ?? 0,
    ...media.map((kind) => at(`output_${kind}_mtok`) ?? 0),
  );
  return {
    input: rateOf(input),
    cached: rateOf(cached),
    write: rateOf(write),
    hourWrite: rateOf(hourWrite),
    output: rateOf(output),
  };
}

/** The sum in 1e-9 USD, rounded up, and at most `maxAmount`. */
function nanosOf(charges: readonly (readonly [tokens: number, rate: number])[]): number {
  // Products of many tokens and a high price are beyond the exact floating-point numbers.
  const picos = charges.reduce(
    (sum, [tokens, rate]) => sum + BigInt(Math.ceil(tokens)) * BigInt(rate),
    0n,
  );
  const nanos = (picos + 999n) / 1000n;
  return nanos > maxAmount ? maxAmount : Number(nanos);
}

interface Source {
  /** The prices that hold at a time. */
  readonly pricesAt: (atMs: number) => Prices;
  readonly isConstant: boolean;
  /**
   * Whether a cache write that is kept for an hour costs twice the input, as Anthropic's do, if the
   * prices do not say so.
   */
  readonly doublesHour: boolean;
  readonly contextWindow: number | undefined;
}

export function modelPriceOf(source: Source): ModelPrice {
  const { pricesAt, isConstant, doublesHour, contextWindow } = source;
  return {
    contextWindow,

    cost(usage, atMs, isTextOnly = false) {
      const { cachedInputTokens: cached, cacheWriteTokens: writes } = usage;
      const input = Math.max(usage.inputTokens, cached + writes);
      const hourWrites = Math.min(usage.hourCacheWriteTokens ?? writes, writes);
      const rates = ratesOf(pricesAt(atMs), input, isTextOnly, doublesHour);
      const hourRate =
        usage.hourCacheWriteTokens === undefined
          ? Math.max(rates.write, rates.hourWrite)
          : rates.hourWrite;
      return nanosOf([
        [input - cached - writes, rates.input],
        [cached, rates.cached],
        [writes - hourWrites, rates.write],
        [hourWrites, hourRate],
        [usage.outputTokens, rates.output],
      ]);
    },

    worst({ maxInputTokens, maxOutputTokens, isTextOnly = false }, atMs) {
      const rates = (isConstant ? [atMs] : timesWithinHour(atMs)).flatMap((timeMs): Rates[] => {
        const prices = pricesAt(timeMs);
        return [0, ...beginningsOfTiers(prices).filter((start) => start < maxInputTokens)].map(
          (start) => ratesOf(prices, start + 1, isTextOnly, doublesHour),
        );
      });
      const max = (of: (rates: Rates) => number) => Math.max(...rates.map(of));
      return nanosOf([
        [maxInputTokens, max((r) => Math.max(r.input, r.cached, r.write, r.hourWrite))],
        [maxOutputTokens, max((r) => r.output)],
      ]);
    },
  };
}

/** Whether every price is known, and none is 0, which a provider's list only has by mistake. */
const isWhole = (prices: Prices): boolean =>
  prices['input_mtok'] !== undefined &&
  prices['output_mtok'] !== undefined &&
  Object.entries(prices).every(
    ([key, price]) =>
      keysOfTools.has(key) ||
      (chargedKeys.has(key) &&
        (typeof price === 'object'
          ? [price.base, ...price.tiers.map((tier) => tier.price)]
          : [price ?? 0]
        ).every((each) => each > 0)),
  );

/** A provider with one model, at the library's prices. */
export interface KnownModel {
  readonly name: string;
  readonly provider: Provider;
  readonly model: Provider['models'][number];
}

/** Price of a model of the library; undefined if the library does not know what all tokens cost. */
export function libraryPriceOf({ name, provider, model }: KnownModel): ModelPrice | undefined {
  const { prices } = model;
  const all = Array.isArray(prices) ? prices.map((each) => each.prices) : [prices];
  if (!all.every(isWhole)) return undefined;
  // The library selects among prices by date and time of day; with one model it need not search.
  const alone = { ...provider, models: [model] };
  const [first = {}] = all;
  const pricesAt = (atMs: number): Prices =>
    Array.isArray(prices)
      ? (calcPrice({}, name, { provider: alone, timestamp: new Date(atMs) })?.model_price ?? first)
      : prices;
  const beginnings = all.flatMap(beginningsOfTiers);
  const window = model.context_window;
  return modelPriceOf({
    pricesAt,
    isConstant: !Array.isArray(prices),
    doublesHour: /claude/i.test(model.id),
    // Claude Sonnet 4.5 takes 1,000,000 tokens by a header, and the library only knows 200,000.
    contextWindow:
      window !== undefined && beginnings.some((start) => start >= window)
        ? Math.max(window, 1_000_000)
        : window,
  });
}
