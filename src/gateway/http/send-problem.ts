import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Refusal } from '@conversation-operator/http/refusal';
import {
  refuseConnection as refuse,
  sendError,
  type ErrorResponse,
} from '@conversation-operator/http/server/error-response';
import { problemBody, problemType, type ProblemError } from '../errors/problem-error.ts';
import { toProblem } from '../errors/to-problem.ts';
import { randomUUID } from 'node:crypto';
import { isWellFormedKey } from '../auth/key.ts';

/** Printable characters, none of which a log or a header could take for something else. */
const saneId = /^[A-Za-z0-9._:-]{1,128}$/;

/**
 * The client's own request id where it is a sane token, else a new one. An API key is no id, since
 * every log line has the id.
 */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && saneId.test(given) && !isWellFormedKey(given)
    ? given
    : randomUUID();
}

type Problem = ProblemError | Refusal;

/** The response with a problem, in the form that all of the service has. */
function responseWith(failure: Problem, requestId: string): ErrorResponse {
  const problem = toProblem(failure);
  return {
    status: problem.status,
    headers: {
      ...problem.headers,
      'content-type': problemType,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'x-request-id': requestId,
    },
    json: problemBody(problem, requestId),
  };
}

/** Responds with a problem. */
export const sendProblem = (response: ServerResponse, problem: Problem, requestId: string): void =>
  sendError(response, responseWith(problem, requestId));

/** Responds to a WebSocket handshake with a problem, and ends the connection. */
export const refuseConnection = (socket: Duplex, problem: Problem, requestId: string): void =>
  refuse(socket, responseWith(problem, requestId));

/** Responds to a request that the HTTP server refuses before any stage. */
export const refusedResponse = (
  refusal: Refusal,
  request: IncomingMessage | undefined,
): ErrorResponse => responseWith(refusal, requestIdOf(request ?? { headers: {} }));
