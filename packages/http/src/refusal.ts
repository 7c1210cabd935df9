/** Reasons for refusing a request. The application turns each reason into a response. */
export type RefusalCode =
  | 'body-too-large'
  | 'expectation-failed'
  | 'headers-too-large'
  | 'malformed-json'
  | 'malformed-request'
  | 'overloaded'
  | 'rate-limited'
  | 'request-timeout'
  | 'share-exceeded'
  | 'too-many-attempts'
  | 'too-many-connections'
  | 'unsupported-media-type';

export interface RefusalOptions extends ErrorOptions {
  readonly headers?: Readonly<Record<string, string>>;
}

/** Error of a request that this package refuses. The message is safe to show to the client. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly code: RefusalCode;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: RefusalCode,
    message: string,
    { headers = {}, ...options }: RefusalOptions = {},
  ) {
    super(message, options);
    this.code = code;
    this.headers = headers;
  }
}
