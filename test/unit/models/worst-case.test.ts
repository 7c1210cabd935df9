import fc from 'fast-check';
import { PriceBook } from '../../../src/models/prices.ts';
import {
  leastOutputTokens,
  maxOutputWithin,
  worstCaseOf,
  type OutputLimit,
  type WorstCaseOptions,
} from '../../../src/models/worst-case.ts';

type Given = Partial<Omit<WorstCaseOptions, 'call'>> & {
  readonly call?: Partial<WorstCaseOptions['call']>;
};
const options = ({ call, ...rest }: Given): WorstCaseOptions => ({
  call: { maxOutputTokens: 1000, answers: 1, isSelfContained: true, images: 0, ...call },
  bodyBytes: 10_000,
  tokensPerImage: 5000,
  contextWindow: 200_000,
  maxOutputDefault: 16_384,
  ...rest,
});
const added = 4096;

describe('the worst case of a call', () => {
  it.each<[string, Given, ReturnType<typeof worstCaseOf>]>([
    [
      'has a token for each byte of its body',
      {},
      { inputTokens: 10_000 + added, outputTokens: 1000 },
    ],
    [
      'has no more text than the context window, and a margin',
      { bodyBytes: 50_000_000 },
      { inputTokens: 210_000 + added, outputTokens: 1000 },
    ],
    [
      'has the whole body where the window is unknown',
      { bodyBytes: 5_000_000, contextWindow: undefined },
      { inputTokens: 5_000_000 + added, outputTokens: 1000 },
    ],
    [
      'has the window where content is elsewhere',
      { call: { isSelfContained: false } },
      { inputTokens: 210_000 + added, outputTokens: 1000 },
    ],
    [
      'has no bound where content is elsewhere and the window is unknown',
      { call: { isSelfContained: false }, contextWindow: undefined },
      undefined,
    ],
    [
      'has tokens of images besides the window',
      { call: { images: 60 }, bodyBytes: 50_000_000 },
      { inputTokens: 210_000 + added + 300_000, outputTokens: 1000 },
    ],
    [
      'has the output of every answer',
      { call: { answers: 8 } },
      { inputTokens: 10_000 + added, outputTokens: 8000 },
    ],
    [
      'has the output that the relay sets where the request has none',
      { call: { maxOutputTokens: undefined, answers: 2 } },
      { inputTokens: 10_000 + added, outputTokens: 32_768 },
    ],
  ])('%s', (_what, given, expected) => {
    expect(worstCaseOf(options(given))).toEqual(expected);
  });
});

describe('the output that a budget allows', () => {
  const price = new PriceBook().priceOf({ model: 'gpt-5', baseUrl: undefined });
  const worst = (bound: { readonly inputTokens: number; readonly outputTokens: number }): number =>
    price?.worst(
      { maxInputTokens: bound.inputTokens, maxOutputTokens: bound.outputTokens, isTextOnly: true },
      0,
    ) ?? Infinity;
  const aLimit = (limit: Partial<OutputLimit> = {}): OutputLimit => ({
    inputTokens: 1000,
    answers: 1,
    wanted: 4000,
    nanos: undefined,
    tokens: undefined,
    worst,
    ...limit,
  });

  // gpt-5: 1,000 tokens of input are 1,250,000 nanos, and each token of output 10,000.
  it.each<[string, Partial<OutputLimit>, number | undefined]>([
    ['is the wanted one without a budget', {}, 4000],
    ['is the wanted one where that is left', { nanos: 41_250_000 }, 4000],
    ['is lowered to the money that is left', { nanos: 41_249_999 }, 3999],
    ['is lowered by the number of answers', { nanos: 41_250_000, answers: 4 }, 1000],
    ['is lowered to the tokens that are left', { tokens: 1500 }, 500],
    ['is lowered to the smaller of both', { tokens: 1500, nanos: 2_250_000 }, 100],
    ['is the least that is of use', { tokens: 1000 + leastOutputTokens }, leastOutputTokens],
    ['is nothing below that', { tokens: 1000 + leastOutputTokens - 1 }, undefined],
    ['is a smaller wanted one', { tokens: 1001, wanted: 1 }, 1],
    ['is nothing where the input alone is too much', { nanos: 1_249_999 }, undefined],
    ['is nothing below another least', { tokens: 1500, least: 501 }, undefined],
    ['costs nothing without a budget in money', { tokens: 1500, worst: undefined }, 500],
  ])('%s', (_what, limit, expected) => {
    expect(maxOutputWithin(aLimit(limit))).toBe(expected);
  });

  it('is within what is left, and one token more is not', () => {
    fc.assert(
      fc.property(
        fc.record({
          inputTokens: fc.nat(500_000),
          answers: fc.integer({ min: 1, max: 8 }),
          wanted: fc.integer({ min: 1, max: 200_000 }),
          nanos: fc.nat(2_000_000_000),
          tokens: fc.nat(2_000_000),
        }),
        ({ inputTokens, answers, wanted, nanos, tokens }) => {
          const fits = (perAnswer: number) =>
            inputTokens + perAnswer * answers <= tokens &&
            worst({ inputTokens, outputTokens: perAnswer * answers }) <= nanos;
          const found = maxOutputWithin(aLimit({ inputTokens, answers, wanted, nanos, tokens }));
          const least = Math.min(wanted, leastOutputTokens);
          expect(fits(found ?? least)).toBe(found !== undefined);
          if (found !== undefined && found < wanted) expect(fits(found + 1)).toBe(false);
        },
      ),
    );
  });
});
