/**
 * Tokens of one call of a model. All are integers from 0. `inputTokens` includes the tokens that were
 * read from a cache and those that were written to one.
 */
export interface TokenUsage {
    readonly inputTokens: number;
    readonly cachedInputTokens: number;
    readonly cacheWriteTokens: number;
    readonly outputTokens: number;
}
