/** An error of a provider. */
export interface ProviderError {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  /** The body, as far as it could be read. */
  readonly text: string;
}

/** A provider's refusal of calls of a key for some time. */
export interface RateLimit {
  /** Time that the provider asks for; undefined: it names none that can be used. */
  readonly restMs: number | undefined;
}

/** A provider that names less or more is not believed: no key is asked for ever, or never again. */
export const restBoundsMs = { min: 100, max: 60_000 } as const;

/**
 * Texts of refusals with 429 that no wait ends: an account of OpenAI without credit; a request
 * beyond what OpenAI or Groq allow in a whole minute; a context for which an account of Anthropic
 * does not pay. One such request, sent again and again, would have the key rest for all owners.
 */
const lasting =
  /"insufficient_quota"|\brequest too large for\b|\bextra usage is required for long context\b/i;

/**
 * Reads an error as a rate limit, which passes; undefined for another error. Status 529 is
 * Anthropic's for an overload. Status 503 is one only with a time after which it passes.
 * `x-should-retry` is what the providers' own clients obey.
 */
export function rateLimitOf(error: ProviderError, nowMs: number): RateLimit | undefined {
  const { status, headers, text } = error;
  if (status !== 429 && status !== 529 && status !== 503) return undefined;
  if (headers['x-should-retry'] === 'false' || lasting.test(text)) return undefined;
  const namedMs =
    positive(headers['retry-after-ms'], 1) ??
    positive(headers['retry-after'], 1000) ??
    dateIn(headers['retry-after'], nowMs) ??
    // Gemini names the time in `google.rpc.RetryInfo` alone.
    positive(/"retryDelay":\s*"([\d.]{1,20})s"/.exec(text)?.[1], 1000);
  if (namedMs === undefined) return status === 503 ? undefined : { restMs: undefined };
  return { restMs: Math.min(Math.max(namedMs, restBoundsMs.min), restBoundsMs.max) };
}

/** The number of a header in milliseconds; undefined for text, and for what is not above 0. */
function positive(value: unknown, unitMs: number): number | undefined {
  if (typeof value !== 'string' || !/^\s*\d+(\.\d+)?\s*$/.test(value)) return undefined;
  const ms = Number(value) * unitMs;
  return ms > 0 ? ms : undefined;
}

/** Milliseconds until the date of a header (RFC 9110); undefined if it is past. */
function dateIn(value: unknown, nowMs: number): number | undefined {
  if (typeof value !== 'string' || !/^\s*[A-Z][a-z]{2,8},? /.test(value)) return undefined;
  const ms = Date.parse(value) - nowMs;
  return ms > 0 ? ms : undefined;
}
