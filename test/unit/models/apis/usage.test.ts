import type { ModelApi } from '../../../../src/models/apis/model-api.ts';
import { sanitised, usageIn } from '../../../../src/models/apis/usage.ts';

type Fields = Readonly<Record<string, unknown>>;

const valid: Readonly<Record<ModelApi, Fields>> = {
  'openai-chat': { prompt_tokens: 10, completion_tokens: 5 },
  'openai-responses': { input_tokens: 10, output_tokens: 5 },
  'anthropic-messages': { input_tokens: 10, output_tokens: 5 },
  gemini: { promptTokenCount: 10, candidatesTokenCount: 5 },
};
const plain = { inputTokens: 10, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 5 };

describe('the usage of an answer', () => {
  it.each<[ModelApi, Fields, Fields]>([
    ['openai-chat', {}, plain],
    ['openai-responses', { input_tokens_details: null }, plain],
    ['anthropic-messages', { cache_read_input_tokens: null }, plain],
    ['gemini', {}, plain],
    [
      'openai-chat',
      { prompt_tokens_details: { cached_tokens: 4, cache_write_tokens: 3 } },
      { ...plain, cachedInputTokens: 4, cacheWriteTokens: 3 },
    ],
    // LiteLLM in front of Anthropic.
    ['openai-chat', { cache_creation_input_tokens: 3 }, { ...plain, cacheWriteTokens: 3 }],
    [
      'openai-chat',
      {
        prompt_tokens_details: {
          cached_tokens: 4,
          cache_creation_tokens: 3,
          cache_creation_token_details: { ephemeral_1h_input_tokens: 2 },
        },
      },
      { ...plain, cachedInputTokens: 4, cacheWriteTokens: 3, hourCacheWriteTokens: 2 },
    ],
    [
      'openai-responses',
      { input_tokens_details: { cache_creation_tokens: 3 } },
      { ...plain, cacheWriteTokens: 3 },
    ],
    ['openai-chat', { total_tokens: 15 }, plain],
    ['openai-chat', { total_tokens: 35 }, { ...plain, outputTokens: 25 }],
    ['openai-chat', { total_tokens: 2 }, plain],
    [
      'openai-responses',
      { input_tokens_details: { cached_tokens: 10 } },
      { ...plain, cachedInputTokens: 10 },
    ],
    [
      'anthropic-messages',
      { cache_read_input_tokens: 100, cache_creation_input_tokens: 20 },
      { ...plain, inputTokens: 130, cachedInputTokens: 100, cacheWriteTokens: 20 },
    ],
    [
      'anthropic-messages',
      { cache_creation_input_tokens: 20, cache_creation: { ephemeral_1h_input_tokens: 15 } },
      { ...plain, inputTokens: 30, cacheWriteTokens: 20, hourCacheWriteTokens: 15 },
    ],
    [
      'gemini',
      { cachedContentTokenCount: 9, toolUsePromptTokenCount: 7, thoughtsTokenCount: 6 },
      { ...plain, inputTokens: 17, cachedInputTokens: 9, outputTokens: 11 },
    ],
    ['gemini', { candidatesTokenCount: undefined }, { ...plain, outputTokens: 0 }],
  ])('of %s with %j', (api, fields, expected) => {
    expect(usageIn(api, { ...valid[api], ...fields })).toEqual(expected);
  });

  const lies = [-1, 0.5, 1e308, Number.NaN, Infinity, 2 ** 53, 2e9, '5', true, {}, []];
  it.each<[ModelApi, string]>([
    ['openai-chat', 'prompt_tokens'],
    ['openai-chat', 'completion_tokens'],
    ['openai-chat', 'cache_creation_input_tokens'],
    ['openai-responses', 'input_tokens'],
    ['openai-responses', 'output_tokens'],
    ['anthropic-messages', 'input_tokens'],
    ['anthropic-messages', 'output_tokens'],
    ['anthropic-messages', 'cache_read_input_tokens'],
    ['anthropic-messages', 'cache_creation_input_tokens'],
    ['gemini', 'promptTokenCount'],
    ['gemini', 'candidatesTokenCount'],
    ['gemini', 'thoughtsTokenCount'],
    ['gemini', 'cachedContentTokenCount'],
  ])('of %s counts as absent where %s lies', (api, name) => {
    for (const lie of lies)
      expect([lie, usageIn(api, { ...valid[api], [name]: lie })]).toEqual([lie, undefined]);
  });

  it.each<[ModelApi, string]>([
    ['openai-chat', 'prompt_tokens'],
    ['openai-chat', 'completion_tokens'],
    ['openai-responses', 'input_tokens'],
    ['openai-responses', 'output_tokens'],
    ['anthropic-messages', 'input_tokens'],
    ['anthropic-messages', 'output_tokens'],
    ['gemini', 'promptTokenCount'],
  ])('of %s counts as absent without %s', (api, name) => {
    for (const none of [null, undefined])
      expect(usageIn(api, { ...valid[api], [name]: none })).toBeUndefined();
  });

  // LiteLLM has 0 for an answer whose provider says nothing. A prompt is never empty.
  it.each<[ModelApi, Fields]>([
    ['openai-chat', { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
    ['openai-responses', { input_tokens: 0, output_tokens: 0 }],
    ['anthropic-messages', { input_tokens: 0, output_tokens: 0 }],
    ['gemini', { promptTokenCount: 0 }],
  ])('of %s counts as absent where all counts are 0: %j', (api, usage) => {
    expect(usageIn(api, usage)).toBeUndefined();
  });

  it('is valid without input where an answer was written: Ollama does not count a cached prompt', () => {
    expect(usageIn('openai-chat', { prompt_tokens: 0, completion_tokens: 5 })).toEqual({
      ...plain,
      inputTokens: 0,
    });
  });

  it('counts as absent where more is cached than there was', () => {
    const details = { cached_tokens: 6, cache_write_tokens: 5 };
    expect(
      usageIn('openai-chat', { ...valid['openai-chat'], prompt_tokens_details: details }),
    ).toBeUndefined();
  });

  it('counts as absent where more is cached for an hour than at all', () => {
    const hour = { cache_creation: { ephemeral_1h_input_tokens: 1 } };
    expect(usageIn('anthropic-messages', { ...valid['anthropic-messages'], ...hour })).toBe(
      undefined,
    );
  });

  it.each([undefined, null, 7, '7', [], [plain]])('is not in %j', (value) => {
    expect(usageIn('openai-chat', value)).toBeUndefined();
  });

  it.each([
    [{ inputTokens: 10, outputTokens: 5 }, plain],
    [{ inputTokens: 9, outputTokens: 5 }, undefined],
    [{ inputTokens: 10, outputTokens: 4 }, undefined],
  ])('beyond what the model can have used, %j, counts as absent', (bound, expected) => {
    expect(sanitised(plain, bound)).toEqual(expected);
  });
});
