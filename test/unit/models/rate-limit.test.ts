import fc from 'fast-check';
import { rateLimitOf } from '../../../src/models/rate-limit.ts';

const nowMs = Date.parse('2026-03-01T12:00:00Z');
const limitIn = (status: number, headers: Readonly<Record<string, unknown>> = {}, text = '') =>
  rateLimitOf({ status, headers, text }, nowMs);

it.each<[string, number, Readonly<Record<string, unknown>>, string, number | undefined]>([
  ['seconds', 429, { 'retry-after': '12' }, '', 12_000],
  ['parts of a second', 429, { 'retry-after': '0.5' }, '', 500],
  ['milliseconds', 429, { 'retry-after-ms': '1500', 'retry-after': '9' }, '', 1_500],
  ['a date', 429, { 'retry-after': 'Sun, 01 Mar 2026 12:00:20 GMT' }, '', 20_000],
  ['the body of Gemini', 429, {}, '{"details":[{"retryDelay": "7.5s"}]}', 7_500],
  ['an overload of Anthropic', 529, { 'retry-after': '3' }, '', 3_000],
  ['an overload with a time', 503, { 'retry-after': '3' }, '', 3_000],
  ['no time', 429, {}, '', undefined],
  ['a date that is past', 429, { 'retry-after': 'Sun, 01 Mar 2026 11:00:00 GMT' }, '', undefined],
  ['zero', 429, { 'retry-after': '0' }, '', undefined],
  ['less than zero', 429, { 'retry-after': '-5' }, '', undefined],
  ['text', 429, { 'retry-after': 'soon' }, '', undefined],
  ['a number in hexadecimal', 429, { 'retry-after': '0x10' }, '', undefined],
  ['two headers', 429, { 'retry-after': ['1', '2'] }, '', undefined],
  ['milliseconds that are text', 429, { 'retry-after-ms': 'x', 'retry-after': '2' }, '', 2_000],
  ['far too long', 429, { 'retry-after': '1000000000' }, '', 60_000],
  ['more than numbers hold', 429, { 'retry-after': '9'.repeat(400) }, '', 60_000],
  ['almost nothing', 429, { 'retry-after-ms': '0.001' }, '', 100],
])('a rate limit that names %s rests', (_what, status, headers, text, restMs) => {
  expect(limitIn(status, headers, text)).toEqual({ restMs });
});

it.each<[string, number, Readonly<Record<string, unknown>>, string]>([
  ['an overload without a time', 503, {}, ''],
  ['an overload with a time that is none', 503, { 'retry-after': 'later' }, ''],
  ['an error of the provider', 500, { 'retry-after': '1' }, ''],
  ['a bad request', 400, { 'retry-after': '1' }, ''],
  ['an account without credit', 429, {}, '{"error":{"code":"insufficient_quota"}}'],
  [
    'a request that is larger than the limit of OpenAI',
    429,
    { 'retry-after-ms': '500' },
    '{"error":{"message":"Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 30601.","type":"tokens","code":"rate_limit_exceeded"}}',
  ],
  [
    'a request that is larger than the limit of Groq, behind LiteLLM',
    429,
    {},
    '{"error":{"message":"litellm.RateLimitError: GroqException - Request too large for model `m` in organization `o` service tier `on_demand` on tokens per minute (TPM): Limit 8000, Requested 34041"}}',
  ],
  [
    'a context that an account of Anthropic may not have',
    429,
    {},
    '{"type":"error","error":{"type":"rate_limit_error","message":"Extra usage is required for long context requests."}}',
  ],
  ['a limit that clients are not to retry', 429, { 'x-should-retry': 'false' }, ''],
])('%s is no rate limit', (_what, status, headers, text) => {
  expect(limitIn(status, headers, text)).toBeUndefined();
});

it('whatever a provider names, a key rests from a tenth of a second to a minute', () => {
  const value = fc.oneof(
    fc.string(),
    fc.double().map(String),
    fc.integer().map(String),
    fc.date().map(String),
  );
  fc.assert(
    fc.property(value, value, fc.string(), (seconds, ms, text) => {
      const headers = { 'retry-after': seconds, 'retry-after-ms': ms };
      const { restMs = 100 } = limitIn(429, headers, text) ?? {};
      expect(restMs).toBeGreaterThanOrEqual(100);
      expect(restMs).toBeLessThanOrEqual(60_000);
    }),
  );
});
