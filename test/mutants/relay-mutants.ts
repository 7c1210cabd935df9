import type { TestedMutant } from './tested-mutant.ts';

const access = { test: 'test/integration/models/relay-access.test.ts' } as const;
const calls = { test: 'test/integration/models/relay-apis.test.ts' } as const;
const streams = { test: 'test/integration/models/relay-streams.test.ts' } as const;
const providers = { test: 'test/integration/models/relay-providers.test.ts' } as const;
const headers = { file: 'src/gateway/models/forwarded-headers.ts' } as const;
const relay = { file: 'src/gateway/models/model-relay.ts' } as const;
const key = {
  file: 'src/gateway/models/upstream-key.ts',
  test: 'test/unit/gateway/models/upstream-key.test.ts',
} as const;
const keys = {
  file: 'src/gateway/models/upstream-keys.ts',
  test: 'test/unit/gateway/models/upstream-keys.test.ts',
} as const;
const handler = { file: 'src/gateway/models/models-handler.ts' } as const;

/** Mistakes in the relay for models. Each name is the mistake as a sentence. */
export const relayMutants: Readonly<Record<string, TestedMutant>> = {
  'any token opens the relay': {
    file: 'src/gateway/models/call-holder.ts',
    ...access,
    from: 'found.length === 0 || isGood.includes(false)',
    to: 'found.length === 0',
    name: "is refused with another owner's token",
  },
  'one good token of two is enough': {
    file: 'src/gateway/models/call-holder.ts',
    ...calls,
    from: 'isGood.includes(false)',
    to: '!isGood.includes(true)',
    name: 'is refused with a token and another one',
  },
  'a paused sandbox calls models': {
    file: 'src/gateway/models/call-holder.ts',
    ...access,
    from: "if (sandbox.spec.replicas !== 1) throw unauthorized('The sandbox is paused.');",
    to: '',
    name: 'the token of a paused sandbox',
  },
  'an agent may ask for any model': {
    ...handler,
    ...access,
    from: 'checkModel(asked, holder);',
    to: '',
    name: 'is refused for the model other',
  },
  'the key is in the URL': {
    ...headers,
    ...calls,
    from: "place === 'key' ? 'x-goog-api-key' : place",
    to: 'place',
    name: 'has the key in a header where the agent has sent its token in the query',
  },
  'all headers of an agent reach the provider': {
    ...headers,
    ...calls,
    from: 'if (value !== undefined && isIn(forwarded, forwardedPrefixes, name) && !ofConnection.has(name))',
    to: 'if (value !== undefined && !ofConnection.has(name))',
    name: 'reaches the provider with what its client says of itself, and nothing else',
  },
  'a call that an agent leaves costs nothing': {
    ...relay,
    ...streams,
    from: "return { kind: reader.isOnlyError ? 'failed' : 'broken' };",
    to: "return { kind: 'failed' };",
    name: 'ends at the provider within a second when the agent leaves',
  },
  'a call goes on at the provider when its agent has left': {
    ...relay,
    ...streams,
    from: 'const transfer = new Transfer(limits, { clock, signal });',
    to: 'const transfer = new Transfer(limits, { clock, signal: new AbortController().signal });',
    name: 'when the agent leaves before the first byte',
  },
  'an error after a part of an answer costs nothing': {
    file: 'src/models/apis/answer.ts',
    ...streams,
    from: 'if (!this.#hasError || this.#hasContent',
    to: 'if (!this.#hasError',
    name: 'that begins with an error costs nothing',
  },
  'a request that was never sent is charged': {
    file: 'src/gateway/models/providers.ts',
    ...providers,
    from: 'cause instanceof ProxyError || !progress.isSent',
    to: 'cause instanceof ProxyError',
    name: 'costs nothing with a certificate that nobody trusts',
  },
  'an error of a provider repeats the key': {
    ...relay,
    ...providers,
    from: 'key !== undefined && bytes.includes(key)',
    to: 'key === undefined',
    name: 'has its own errors passed on with their headers, and without the key',
  },
  'an owner with a flood of calls is served before all others': {
    ...key,
    from: 'this.#queue.remove(waiter.owner, waiter, { isServed: true });',
    to: 'this.#queue.remove(waiter.owner, waiter);',
    name: 'one call does not wait behind the flood of another owner',
  },
  'a call that its agent has left keeps its place': {
    ...key,
    from: 'this.#queue.remove(owner, waiter); end();',
    to: 'end();',
    name: 'that agents leave are forgotten, and the next one goes',
  },
  'the end of a call wakes no other': {
    ...key,
    from: 'this.#lastUsedMs = clock.monotonic(); this.#serve(); };',
    to: 'this.#lastUsedMs = clock.monotonic(); };',
    name: 'that agents leave are forgotten, and the next one goes',
  },
  'all calls go at once when a rest is over': {
    ...key,
    from: 'this.#window = 1;',
    to: '',
    name: 'one more call is made at once for each that was accepted',
  },
  'the same owner may try the key after each rest': {
    ...key,
    from: 'if (this.#isTried) return this.#queue.heads();',
    to: 'if (this.#window > 0) return this.#queue.heads();',
    name: 'whose provider takes one call at a time each of two owners',
  },
  'each refusal of calls under way together makes the rest longer': {
    ...key,
    from: 'const isNew = period === this.#period;',
    to: 'const isNew = true;',
    name: 'the refusals of calls that were under way together are one',
  },
  'a success from before a rest opens the key': {
    ...key,
    from: 'if (period !== this.#period) return;',
    to: '',
    name: 'a success of a call from before the rest opens nothing',
  },
  'a call that was not made keeps its tokens': {
    ...key,
    from: 'if (used === undefined) this.#countTokens(owner, { before: estimate, after: 0 });',
    to: '',
    name: 'because it was not made after the call',
  },
  'a false usage stops a key for ever': {
    ...key,
    from: 'Math.min(tokens, 2 * tokensPerMinute)',
    to: 'tokens * Math.sign(tokensPerMinute)',
    name: 'count a false number after the call',
  },
  'a call that waits for its owner delays all others': {
    ...key,
    from: 'if (!obstacle.isOfOwner) break;',
    to: 'break;',
    name: 'of an owner delay no other owner',
  },
  'a provider lets a key rest for ever': {
    file: 'src/models/rate-limit.ts',
    test: 'test/unit/models/rate-limit.test.ts',
    from: 'Math.min(Math.max(namedMs, restBoundsMs.min), restBoundsMs.max)',
    to: 'Math.max(namedMs, restBoundsMs.min)',
    name: 'a key rests from a tenth of a second to a minute',
  },
  'a request that is too large lets a key rest': {
    file: 'src/models/rate-limit.ts',
    test: 'test/unit/models/rate-limit.test.ts',
    from: '|\\brequest too large for\\b',
    to: '',
    name: 'a request that is larger than the limit of OpenAI is no rate limit',
  },
  'a model without room holds up all models of its key': {
    ...keys,
    from: '[...id, model], request',
    to: 'id, request',
    name: 'a model without room holds up no calls of other models',
  },
  'calls that wait have all the room for calls': {
    ...keys,
    file: 'src/gateway/models/upstream-key.ts',
    from: '(call.room ?? everyRoom)()',
    to: 'everyRoom()',
    name: 'calls that wait take half of the room for calls',
  },
  'a call holds its reservation while it waits': {
    ...relay,
    test: 'test/integration/models/relay-rate-limits.test.ts',
    from: "counted?.account.settle({ kind: lateStatuses.has(answer.status) ? 'broken' : 'failed' }); const error = await readError(answer, transfer.signal);",
    to: 'const error = await readError(answer, transfer.signal);',
    name: 'nothing is charged twice',
  },
};
