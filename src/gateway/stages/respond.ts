import type { SlowReaderGuard } from '@conversation-operator/http/limits/slow-clients';
import type { RateLimits } from '@conversation-operator/http/limits/rate-limits';
import type { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import type { TrustedProxies } from '@conversation-operator/http/limits/client-address';
import type { Logger } from '@conversation-operator/base/logger';
import type { ErrorRequestHandler, Request, RequestHandler, Response } from 'express';
import { sendJson, sendJsonText, sendText } from '@conversation-operator/http/body/send-json';
import { problemBody, problemType, toProblem } from '../errors/problem-response.ts';
import { kindOf, type HandlerResult, type Route } from '../http/route.ts';
import type { AsyncLocalStorage } from 'node:async_hooks';
import type { Disclosures } from '../auth/secret-reads.ts';
import { Refusal } from '@conversation-operator/http/refusal';
import type { Shares } from '@conversation-operator/base/shares';
import {
  bodyBytesOf,
  hasBody,
  jsonOf,
  readBody as readAll,
} from '@conversation-operator/http/body/json-body';

const isJson = ({ headers }: Request): boolean =>
  /^application\/json\s*(;|$)/i.test(headers['content-type'] ?? '');

/**
 * Reads the body of a request once `places.bodies` has room for it. Until then, nothing is read
 * from the connection. If the endpoint has no body, a JSON body is read nevertheless, to reject its
 * fields.
 */
export const readBody =
  (
    {
      places,
      rateLimits,
      scheduler,
    }: {
      readonly places: { readonly bodies: Shares };
      readonly rateLimits: RateLimits;
      readonly scheduler: FairScheduler;
    },
    { body: schema, maxForwardedBytes }: Route,
  ): RequestHandler =>
  async (request, response, next) => {
    const { owner, leave } = response.locals;
    const isRead = hasBody(request) && (schema !== undefined || isJson(request));
    if (!isRead || owner === undefined) {
      next();
      return;
    }
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    try {
      const units = bodyBytesOf(request, maxForwardedBytes);
      const release = await places.bodies.wait({ owner }, { units, signal: gone.signal });
      response.locals.leave = () => {
        release();
        leave?.();
      };
      if (gone.signal.aborted) response.locals.leave();
      const body = await readAll(request, maxForwardedBytes);
      scheduler.chargeBytes(owner, body.length);
      if (maxForwardedBytes === undefined) rateLimits.written(owner, body.length);
      request.body = body;
    } catch (error) {
      // A client that disconnected while its request waited needs no response.
      if (gone.signal.aborted) return;
      throw error;
    }
    next();
  };

/** Parses the body as a task of the scheduler: a large body takes several milliseconds. */
export const parseBody =
  ({ scheduler }: { readonly scheduler: FairScheduler }): RequestHandler =>
  async (request, response, next) => {
    const { owner } = response.locals;
    const body = request.body as unknown;
    if (owner !== undefined && Buffer.isBuffer(body))
      request.body = await scheduler.run(owner, () => jsonOf(body));
    next();
  };

/** Query parameters that may be given more than once. */
const repeatable: ReadonlySet<string> = new Set(['id', 'ids']);

/** Runs the handler of the route, which validates the request, as a task of the scheduler. */
export const handle =
  (
    {
      scheduler,
      currentOwner,
      disclosures,
    }: {
      readonly scheduler: FairScheduler;
      readonly currentOwner: AsyncLocalStorage<string>;
      readonly disclosures: Disclosures;
    },
    route: Route,
  ): RequestHandler =>
  async (request, response, next) => {
    const { principal, owner } = response.locals;
    const run = () => {
      const reader = principal && disclosures.readerOf(principal, request, response);
      return route.handle({
        principal,
        reader,
        query: queryOf(request.originalUrl, repeatable),
        request,
        response,
      });
    };
    response.locals.result = await (owner === undefined
      ? run()
      : scheduler.run(owner, () => currentOwner.run(owner, run)));
    next();
  };

/** Rejects a query with NUL, a percent sign without digits, or bytes that are not UTF-8. */
function refuseUnreadable(query: string): void {
  if (!query.includes('%')) return;
  try {
    if (!decodeURIComponent(query).includes('\0')) return;
  } catch {
    // The error is thrown below.
  }
  throw new Refusal('malformed-request', 'The query is not percent-encoded UTF-8 text.');
}

/**
 * Parses the query of a request target. Throws `malformed-request`.
 * @param repeatable Parameters whose values are lists, even with one element. The last value of
 * every other parameter counts.
 */
function queryOf(
  target: string,
  repeatable: ReadonlySet<string>,
): Readonly<Record<string, string | readonly string[] | undefined>> {
  const start = target.indexOf('?');
  if (start < 0) return {};
  refuseUnreadable(target.slice(start));
  const parameters = new URLSearchParams(target.slice(start));
  return Object.fromEntries(
    [...new Set(parameters.keys())].map((name) => {
      const values = parameters.getAll(name);
      return [name, repeatable.has(name) ? values : values.at(-1)];
    }),
  );
}

/**
 * Sends the result of the handler, and counts its bytes. A handler with the result `sent` has sent
 * its response, or is still sending it; a request that no handler answered has no result.
 */
export const respond =
  (
    {
      scheduler,
      slowReaders,
      rateLimits,
      proxies,
    }: {
      readonly scheduler: FairScheduler;
      readonly slowReaders: SlowReaderGuard;
      readonly rateLimits: RateLimits;
      readonly proxies: TrustedProxies;
    },
    route: Route,
  ): RequestHandler =>
  (request, response) => {
    const { owner, leave, result } = response.locals;
    // The permits are released here, because a stream that is still open does no more work.
    leave?.();
    if (result === undefined || result === 'sent') return;
    const bytes =
      owner === undefined
        ? send(response, result)
        : scheduler.now(owner, () => send(response, result));
    slowReaders.add(response, owner ?? proxies.clientAddress(request), () =>
      request.socket.destroy(),
    );
    if (owner === undefined) return;
    rateLimits.answered(owner, kindOf(route), bytes);
    scheduler.chargeBytes(owner, bytes);
  };

/** Sends a result, and returns its length in bytes. */
function send(response: Response, result: Exclude<HandlerResult, 'sent'>): number {
  if ('sentBytes' in result) return result.sentBytes;
  if ('plainText' in result) return sendText(response, 200, result.plainText);
  if ('jsonText' in result) return sendJsonText(response, 200, result.jsonText);
  return sendJson(response, result.status ?? 200, result.json);
}

export const respondWithProblem =
  ({ logger }: { readonly logger: Logger }): ErrorRequestHandler =>
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- four parameters
  (error: unknown, request, response, _next) => {
    const problem = toProblem(error);
    const { requestId, route } = response.locals;
    response.locals.problem = problem.code;
    if (problem.status >= 500) {
      logger[levelOf(problem, request, response)]('Request failed', {
        requestId,
        operation: route?.operationId,
        error,
      });
    }
    if (response.headersSent) {
      response.destroy();
      return;
    }
    sendJson(response, problem.status, problemBody(problem, requestId), {
      ...problem.headers,
      'content-type': problemType,
    });
  };

/** Log level of a failed request; `debug` for a read whose client has disconnected. */
const levelOf = (
  { status }: { readonly status: number },
  { method }: Request,
  { destroyed }: Response,
) => (destroyed && method === 'GET' ? 'debug' : status === 500 ? 'error' : 'warn');
