/**
 * What the checks would find in the product as it is, each with its reason. A check asks before it reports such a failure. An entry
 * goes together with the fault that it names, and the check is whole again.
 */
export const knownFailures = {
  'a cache that is behind forgets losses':
    'A run whose container was lost is taken for one that was cut off without a cause while the cache is behind, and its losses count anew.',
} as const satisfies Readonly<Record<string, string>>;

export type KnownFailure = keyof typeof knownFailures;

export const isKnown = (failure: string): failure is KnownFailure => Object.hasOwn(knownFailures, failure);
