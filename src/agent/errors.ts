export const agentErrorCodes = [
  /** No connection: nothing has been sent. */
  'unreachable',
  /** No complete answer in time. */
  'timeout',
  /** The connection broke after the request had gone out. */
  'connection-lost',
  'aborted',
  /** The agent does not know the key. */
  'unauthorized',
  /** The agent has (re)started and waits for its keys: call `initialise`. */
  'dormant',
  'not-found',
  /** 4xx: the same request will be refused again. */
  'refused',
  /** The agent needs a model for the conversation, and none is configured. */
  'unconfigured',
  /** Too many runs, or an earlier create call of the conversation may still be under way. */
  'busy',
  /** 5xx: the agent may have executed the request. */
  'failed',
  /** An answer that is not of the protocol, or is too large. */
  'malformed',
] as const;
export type AgentErrorCode = (typeof agentErrorCodes)[number];

/** Codes that leave open whether the agent has executed the request. */
const unknownOutcomes: ReadonlySet<AgentErrorCode> = new Set([
  'timeout',
  'connection-lost',
  'aborted',
  'failed',
  'malformed',
]);

/** Failed call to an agent. Owners of the sandbox may see the message; the cause is for logs. */
export class AgentError extends Error {
  override readonly name = 'AgentError';
  readonly code: AgentErrorCode;
  /** HTTP status; undefined without an answer. */
  readonly status: number | undefined;

  constructor(
    code: AgentErrorCode,
    message: string,
    options?: ErrorOptions & { readonly status?: number | undefined },
  ) {
    super(message, options);
    this.code = code;
    this.status = options?.status;
  }

  /** Whether the agent may have executed the request: read its state before a retry. */
  get outcomeUnknown(): boolean {
    return unknownOutcomes.has(this.code);
  }
}

export const isAgentError = (error: unknown, ...codes: AgentErrorCode[]): error is AgentError =>
  error instanceof AgentError && codes.includes(error.code);
