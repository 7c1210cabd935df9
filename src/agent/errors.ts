export const agentErrorCodes = [
  /** No connection was made, so the agent has not received the request. */
  'unreachable',
  /** The agent has not answered completely within the deadline. */
  'timeout',
  /** The connection broke after the request was sent. */
  'connection-lost',
  'aborted',
  /** The agent does not accept the key. */
  'unauthorized',
  /** The agent waits for its keys since its start or restart: call `initialise`. */
  'dormant',
  'not-found',
  /** HTTP 4xx: the agent will refuse the same request again. */
  'refused',
  /** The conversation needs a model, and none is configured. */
  'unconfigured',
  /** The agent has too many runs, or an earlier call may still be creating the conversation. */
  'busy',
  /** HTTP 5xx: the agent may have executed the request. */
  'failed',
  /** The answer does not follow the protocol, or is too large. */
  'malformed',
] as const;
export type AgentErrorCode = (typeof agentErrorCodes)[number];

/** Codes that do not tell whether the agent has executed the request. */
const unknownOutcomes: ReadonlySet<AgentErrorCode> = new Set([
  'timeout',
  'connection-lost',
  'aborted',
  'failed',
  'malformed',
]);

/** A failed call to an agent. Owners of the sandbox may see the message; the cause is for logs. */
export class AgentError extends Error {
  override readonly name = 'AgentError';
  readonly code: AgentErrorCode;
  /** HTTP status; undefined if there was no answer. */
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

  /** Whether the agent may have executed the request. Read the agent's state before a retry. */
  get outcomeUnknown(): boolean {
    return unknownOutcomes.has(this.code);
  }
}

export const isAgentError = (error: unknown, ...codes: AgentErrorCode[]): error is AgentError =>
  error instanceof AgentError && codes.includes(error.code);
