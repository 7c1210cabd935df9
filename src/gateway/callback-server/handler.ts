import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Sandbox } from '../../resources/sandbox.ts';
import { ProblemError } from '../errors/problem-error.ts';

/** One request of a sandbox, or of any other caller: only its path has been checked so far. */
export interface CallbackRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /**
   * The sandbox in the cache; undefined where none has the name. The response must not disclose
   * whether the sandbox exists.
   */
  readonly sandbox: Sandbox | undefined;
  /** Segments behind the sandbox's name, decoded; never empty, `.` or `..`. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
  /** Aborts when the caller disconnects, or the gateway closes. */
  readonly signal: AbortSignal;
}

/** Something that sandboxes may ask of the gateway, below `/{name}/{sandbox}/`. */
export interface CallbackHandler {
  readonly name: string;
  /**
   * Authorizes the request, and answers it. An error that it throws before the headers becomes a
   * problem response.
   */
  handle(call: CallbackRequest): Promise<void>;
}

/** The error for a path that no handler serves. */
export const noSuchEndpoint = (): ProblemError =>
  new ProblemError('route-not-found', 'There is no such endpoint.');
