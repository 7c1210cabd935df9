import type { TestedMutant } from './tested-mutant.ts';

const access = { test: 'test/integration/models/relay-access.test.ts' } as const;
const calls = { test: 'test/integration/models/relay-apis.test.ts' } as const;
const streams = { test: 'test/integration/models/relay-streams.test.ts' } as const;
const providers = { test: 'test/integration/models/relay-providers.test.ts' } as const;
const headers = { file: 'src/gateway/models/forwarded-headers.ts' } as const;
const relay = { file: 'src/gateway/models/model-relay.ts' } as const;
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
};
