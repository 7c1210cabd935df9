export const agentErrorCodes = [
  /** No connection: nothing has been sent. */
  'unreachable',
  /** No complete answer in time. */
  'timeout',
  /** The connection broke after the request had gone out. */
  'connection-lost',
  /** The caller's signal was aborted. */
  'aborted',
  /** The agent does not know the key. */
  'unauthorized',
  /** The agent has started (again) and waits for its keys: initialise it. */
  'dormant',
  'not-found',
  /** 4xx: the same request will be refused again. */
  'refused',
  /** It would take the conversation, and could not work: it needs a model, and none is configured. */
  'unconfigured',
  /** Not now: too many runs, or a create call for the same conversation that may still be under way. */
  'busy',
  /** 5xx: something may have been done. */
  'failed',
  /** An answer that is not of the protocol, or is too large. */
  'malformed',
] as const;
export type AgentErrorCode = (typeof agentErrorCodes)[number];

/** After these nobody knows whether the agent has done what it was asked. */
const unknownOutcomes: ReadonlySet<AgentErrorCode> = new Set(['timeout', 'connection-lost', 'aborted', 'failed', 'malformed']);

/** A call to an agent that did not succeed. The message is safe to show to the sandbox's owner; the cause is for logs. */
export class AgentError extends Error {
  override readonly name = 'AgentError';
  readonly code: AgentErrorCode;
  /** The HTTP status, where there was an answer. */
  readonly status: number | undefined;

  constructor(code: AgentErrorCode, message: string, options?: ErrorOptions & { readonly status?: number | undefined }) {
    super(message, options);
    this.code = code;
    this.status = options?.status;
  }

  /** Whether the agent may have done it all the same: look before doing it again. */
  get outcomeUnknown(): boolean {
    return unknownOutcomes.has(this.code);
  }
}
