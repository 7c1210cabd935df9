export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  /** Milliseconds since 1970; undefined: the credentials do not end by themselves. */
  readonly expiresAtMs?: number | undefined;
}

/**
 * Returns credentials, the same object for as long as they are in use. `rejected`: credentials that
 * the store has rejected, in place of which the source gets others, once for all calls that had
 * these. Rejects with a `StoreError`: `denied` when there are none, `unavailable`, `throttled` or
 * `timeout` when they can not be got now.
 */
export type CredentialSource = (rejected?: Credentials) => Promise<Credentials>;

/** Where credentials come from: a file, or a service. Each call gets them anew. */
export type CredentialProvider = () => Promise<Credentials>;
