/** Limits of use. An absent one is no limit. */
export interface UseLimits {
  /** Maximum calls at once. */
  readonly calls?: number | undefined;
  /** Maximum tokens of requests and answers in a minute. */
  readonly tokensPerMinute?: number | undefined;
}

/** Limits of each key of one credential, in one process of the relay. */
export interface KeyLimits extends UseLimits {
  /** Name of the credential in templates. */
  readonly credential: string;
  /** Limits of each owner, within those of the key. */
  readonly perOwner?: UseLimits | undefined;
}
