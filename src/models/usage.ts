/**
 * Tokens of one call of a model. All are integers from 0. `inputTokens` includes the tokens that
 * were read from a cache and those that were written to one.
 */
export interface TokenUsage {
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly cacheWriteTokens: number;
  /**
   * Part of `cacheWriteTokens` that the provider keeps for an hour, at a higher price (Anthropic's
   * `cache_creation.ephemeral_1h_input_tokens`). Absent if the answer does not say it. Then all of
   * `cacheWriteTokens` cost the higher price.
   */
  readonly hourCacheWriteTokens?: number;
  readonly outputTokens: number;
}
