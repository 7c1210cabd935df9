import { createHash, randomUUID } from 'node:crypto';
import type { Response } from 'express';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Refusal } from '@conversation-operator/http/refusal';
import {
  refuseConnection as refuse,
  sendError,
  type ErrorResponse,
} from '@conversation-operator/http/body/send-json';
import { type ProblemError } from '../errors/problem-error.ts';
import { problemBody, problemType, toProblem } from '../errors/problem-response.ts';
import { isWellFormedKey, isWellFormedShareToken } from '../auth/key.ts';

/** Printable characters that are safe in logs and in headers. */
const saneId = /^[A-Za-z0-9._:-]{1,128}$/;

/**
 * The client's own request id if it is a valid token, else a new one. An API key, or the token of
 * a share, is never used as an id, since every log line has the id.
 */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' &&
    saneId.test(given) &&
    !isWellFormedKey(given) &&
    !isWellFormedShareToken(given)
    ? given
    : randomUUID();
}

type Problem = ProblemError | Refusal;

/** The response to send for a problem. */
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

export const sendProblem = (response: ServerResponse, problem: Problem, requestId: string): void =>
  sendError(response, responseWith(problem, requestId));

/** Responds to a WebSocket handshake with a problem, and ends the connection. */
export const refuseConnection = (socket: Duplex, problem: Problem, requestId: string): void =>
  refuse(socket, responseWith(problem, requestId));

/** The response to a request that the HTTP server rejects before the first stage. */
export const refusedResponse = (
  refusal: Refusal,
  request: IncomingMessage | undefined,
): ErrorResponse => responseWith(refusal, requestIdOf(request ?? { headers: {} }));

/** Sends a whole body with its Content-Length. */
export function sendBytes(
  response: Response,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
): 'sent' {
  response.set({ ...headers, 'content-length': String(body.length) });
  response.end(body);
  return 'sent';
}

/** Entity tags by body. Many requests get the same Buffer, so its tag is computed once. */
const tags = new WeakMap<Buffer, string>();

/** A strong tag: the plain and the compressed form of a file have different tags. */
function tagOf(body: Buffer): string {
  const tag = tags.get(body) ?? `"${createHash('sha256').update(body).digest('base64url')}"`;
  tags.set(body, tag);
  return tag;
}

/** Sends a body that is the same for all requests; 304 if `If-None-Match` has its entity tag. */
export function sendStatic(
  response: Response,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
): 'sent' {
  response.set({ ...headers, etag: tagOf(body) });
  if (!response.req.fresh) return sendBytes(response, {}, body);
  // These headers describe a body, which a 304 does not have.
  response.removeHeader('content-type');
  response.removeHeader('content-encoding');
  response.status(304).end();
  return 'sent';
}

/** A file, plain and compressed. */
export interface Packable {
  readonly plain: () => Buffer;
  readonly packed?: () => Buffer;
}

export const immutable = 'public, max-age=31536000, immutable';

/** Sends a file, compressed if the client accepts that. Pages of other origins can't use it. */
export function sendFile(
  response: Response,
  headers: Readonly<Record<string, string>>,
  { plain, packed }: Packable,
): 'sent' {
  const takesPacked = packed !== undefined && response.req.acceptsEncodings('gzip') === 'gzip';
  return sendStatic(
    response,
    {
      ...headers,
      'cross-origin-resource-policy': 'same-origin',
      ...(packed === undefined ? {} : { vary: 'Accept-Encoding' }),
      ...(takesPacked ? { 'content-encoding': 'gzip' } : {}),
    },
    takesPacked ? packed() : plain(),
  );
}
