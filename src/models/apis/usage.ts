import type { TokenUsage } from '../usage.ts';
import { ModelApi } from './model-api.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

export const objectOf = (value: unknown): JsonObject | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : undefined;

/** A count of tokens; 0 where it is absent, NaN for all that is no count. */
function countOf(value: unknown): number {
  if (value === undefined || value === null) return 0;
  return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : Number.NaN;
}

/** Maximum count of one call that is taken for true: no model has a context of this size. */
const maxTokens = 1_000_000_000;

/**
 * The usage of one call, from the object `usage` of an answer, or `usageMetadata` of Gemini. One
 * that is not valid counts as absent, so that the caller charges what it reserved: with a negative,
 * fractional or huge count, text in place of a number, more cached tokens than input, without a
 * count that the API always has, or with nothing but 0, as LiteLLM writes for no usage.
 */
export function usageIn(api: ModelApi, value: unknown): TokenUsage | undefined {
  const usage = objectOf(value);
  return usage === undefined ? undefined : sanitised(mapping[api](usage));
}

/**
 * The usage if it is valid and within `bound`, which is what the model can have used at most; else
 * undefined. Nothing is lowered to the bound: a provider that is wrong once may be wrong in all.
 */
export function sanitised(
  usage: TokenUsage,
  bound: { readonly inputTokens: number; readonly outputTokens: number } = {
    inputTokens: maxTokens,
    outputTokens: maxTokens,
  },
): TokenUsage | undefined {
  const isValid =
    Object.values(usage).every((count) => Number.isSafeInteger(count) && count >= 0) &&
    usage.inputTokens + usage.outputTokens > 0 &&
    (usage.hourCacheWriteTokens ?? 0) <= usage.cacheWriteTokens &&
    usage.cachedInputTokens + usage.cacheWriteTokens <= usage.inputTokens &&
    usage.inputTokens <= bound.inputTokens &&
    usage.outputTokens <= bound.outputTokens;
  return isValid ? usage : undefined;
}

const mapping: Readonly<Record<ModelApi, (usage: JsonObject) => TokenUsage>> = {
  [ModelApi.OpenAiChat]: (usage) => {
    const details = objectOf(usage['prompt_tokens_details']);
    const inputTokens = required(usage['prompt_tokens']);
    const outputTokens = required(usage['completion_tokens']);
    return {
      inputTokens,
      cachedInputTokens: countOf(details?.['cached_tokens']),
      ...cacheWritesOf(details, usage),
      // Some providers count the tokens of reasoning in the total alone, and bill them.
      outputTokens: Math.max(outputTokens, countOf(usage['total_tokens']) - inputTokens),
    };
  },
  [ModelApi.OpenAiResponses]: (usage) => {
    const details = objectOf(usage['input_tokens_details']);
    return {
      inputTokens: required(usage['input_tokens']),
      cachedInputTokens: countOf(details?.['cached_tokens']),
      ...cacheWritesOf(details, usage),
      outputTokens: required(usage['output_tokens']),
    };
  },
  [ModelApi.AnthropicMessages]: (usage) => {
    const cachedInputTokens = countOf(usage['cache_read_input_tokens']);
    const cacheWriteTokens = countOf(usage['cache_creation_input_tokens']);
    const hour = objectOf(usage['cache_creation'])?.['ephemeral_1h_input_tokens'];
    return {
      inputTokens: required(usage['input_tokens']) + cachedInputTokens + cacheWriteTokens,
      cachedInputTokens,
      cacheWriteTokens,
      ...(hour === undefined || hour === null ? {} : { hourCacheWriteTokens: countOf(hour) }),
      outputTokens: required(usage['output_tokens']),
    };
  },
  // JSON of protocol buffers leaves out counts that are 0, but a prompt is never empty.
  [ModelApi.Gemini]: (usage) => ({
    inputTokens: required(usage['promptTokenCount']) + countOf(usage['toolUsePromptTokenCount']),
    cachedInputTokens: countOf(usage['cachedContentTokenCount']),
    cacheWriteTokens: 0,
    outputTokens: countOf(usage['candidatesTokenCount']) + countOf(usage['thoughtsTokenCount']),
  }),
};

/** LiteLLM, in front of Anthropic, has called the writes to the cache by each of these names. */
function cacheWritesOf(details: JsonObject | undefined, usage: JsonObject) {
  const byAge = objectOf(details?.['cache_creation_token_details']);
  const hour = byAge?.['ephemeral_1h_input_tokens'];
  return {
    cacheWriteTokens: Math.max(
      countOf(details?.['cache_write_tokens']),
      countOf(details?.['cache_creation_tokens']),
      countOf(usage['cache_creation_input_tokens']),
    ),
    ...(hour === undefined || hour === null ? {} : { hourCacheWriteTokens: countOf(hour) }),
  };
}

const required = (value: unknown): number =>
  value === undefined || value === null ? Number.NaN : countOf(value);
