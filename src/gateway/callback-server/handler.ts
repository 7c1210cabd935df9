import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Sandbox } from '../../resources/sandbox.ts';

/** One request of a sandbox, or of any other caller: only its path has been checked so far. */
export interface CallbackRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** As the caches have it; undefined where there is none of the name. The response must not disclose which of the two. */
  readonly sandbox: Sandbox | undefined;
  /** Segments behind the sandbox's name, decoded; never empty, `.` or `..`. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
  /** Aborted when the caller goes away, or the gateway closes. */
  readonly signal: AbortSignal;
}

/** Something that sandboxes may ask of the gateway, below `/{name}/{sandbox}/`. */
export interface CallbackHandler {
  readonly name: string;
  /** Authorizes the request, and answers it. An error that it throws before the headers becomes a problem response. */
  handle(call: CallbackRequest): Promise<void>;
}
