import type { IncomingHttpHeaders } from 'node:http';
import type { Express, ErrorRequestHandler, Request, RequestHandler, Response } from 'express';
import type { Clock } from '@conversation-operator/kube/clock';
import type { Logger } from '@conversation-operator/kube/logger';
import type { Authenticator, Principal } from '../auth/authenticate.ts';
import type { Disclosures } from '../auth/disclosures.ts';
import type { KeyUse } from '../auth/key-use.ts';
import { problemBody } from '../errors/problem-body.ts';
import { ProblemError, unavailable } from '../errors/problem-error.ts';
import { toProblem } from '../errors/to-problem.ts';
import type { ClientAddress } from '../limits/client-address.ts';
import type { LoadShedder } from '../limits/load-shedder.ts';
import type { OwnerConnections } from '../limits/owner-connections.ts';
import type { RateLimits, RequestKind } from '../limits/rate-limits.ts';
import type { Shares } from '@conversation-operator/kube/shares';
import type { FairScheduler } from '../limits/fair-scheduler.ts';
import type { SlowReaderGuard } from '../limits/slow-reader-guard.ts';
import type { CurrentOwner } from './current-owner.ts';
import { hasBody, jsonOf, maxBodyBytes, readBody } from './json-body.ts';
import { queryOf } from './query.ts';
import type { HandlerResult, Route } from './route.ts';
import { sendJson, sendJsonText } from './send-json.ts';

export interface RouterOptions {
  readonly routes: readonly Route[];
  readonly authenticator: Authenticator;
  readonly keyUse: Pick<KeyUse, 'seen'>;
  readonly disclosures: Disclosures;
  /** Whether the caches are filled, so that a key that is not found is known to be wrong. */
  readonly isSynced: () => boolean;
  readonly limits: RateLimits;
  readonly connections: OwnerConnections;
  readonly load: LoadShedder;
  /** Bytes of bodies that are worked on. */
  readonly bodies: Shares;
  readonly scheduler: FairScheduler;
  readonly currentOwner: CurrentOwner;
  readonly waiting: SlowReaderGuard;
  readonly clock: Clock;
  readonly clientAddress: ClientAddress;
  readonly logger: Logger;
  /** Whose sandbox this is, where the headers show its session key and it runs. */
  readonly opensSession: (sandbox: string, headers: IncomingHttpHeaders) => string | undefined;
}

/** Puts the routes on an app, with everything that holds for all of them. */
export function addRoutes(app: Express, options: RouterOptions): void {
  // Paths without parameters first, so that /search is never taken for an id, not even to refuse its method.
  const byPath = Map.groupBy(
    options.routes.toSorted((left, right) => Number(left.path.includes('{')) - Number(right.path.includes('{'))),
    ({ path }) => path,
  );
  for (const [path, routes] of byPath) {
    const pattern = path.replaceAll(/\{(\w+)\}/g, ':$1');
    for (const route of routes) {
      app[route.method](pattern, admit(route, options), ...(route.body === undefined ? [] : [takeBody(options)]), answer(route, options));
    }
    app.all(pattern, refuseMethod(routes));
  }
  app.use(() => {
    throw new ProblemError('route-not-found', 'There is no such endpoint. See /openapi.json.');
  });
  app.use(answerProblem(options));
}

const kindOf = ({ method }: Route): RequestKind => (method === 'get' ? 'reads' : 'writes');

const admit =
  (route: Route, options: RouterOptions): RequestHandler =>
  (request, response, next) => {
    response.locals.route = route;
    response.locals.pattern = route.path;
    if (route.access !== 'open') {
      response.setHeader('cache-control', 'no-store');
      if (!options.isSynced()) throw unavailable();
      const kind = kindOf(route);
      const owner = ownerOf(route, request, response, options);
      response.locals.owner = owner;
      options.connections.attribute(request.socket, owner);
      for (const [name, value] of Object.entries(options.limits.request(owner, kind))) response.setHeader(name, value);
      response.locals.leave = options.load.enter(owner, kind);
    }
    next();
  };

/** Whose request it is. Throws 401 for a request without a right key. */
function ownerOf(route: Route, request: Request, response: Response, options: RouterOptions): string {
  // Not tried as an API key: it is no failed attempt.
  const { id } = request.params;
  const ofSession = route.access === 'session' && typeof id === 'string' ? options.opensSession(id, request.headers) : undefined;
  if (ofSession !== undefined) return ofSession;
  const principal = authenticate(request, options);
  response.locals.principal = principal;
  options.keyUse.seen(principal.keyName);
  return principal.owner;
}

/** Throws 401, or 429 after too many of these. */
function authenticate(request: Request, { authenticator, limits, clientAddress }: RouterOptions): Principal {
  try {
    return authenticator.authenticate(request.headers);
  } catch (error) {
    limits.failedKey(clientAddress(request));
    throw error;
  }
}

/** How large a body can get: as large as it says, or as is allowed where it says nothing, or says so of its packed form. */
function bodyBytesOf(request: Request): number {
  if (!hasBody(request)) return 0;
  const { 'content-length': length, 'content-encoding': encoding } = request.headers;
  return length === undefined || encoding !== undefined ? maxBodyBytes : Math.min(Number(length), maxBodyBytes);
}

/** Reads the body once there is room for it, and lets it wait until its owner may store that much. */
const takeBody =
  (options: RouterOptions): RequestHandler =>
  async (request, response, next) => {
    const { owner } = response.locals;
    if (hasBody(request) && owner !== undefined) {
      const gone = new AbortController();
      response.once('close', () => gone.abort());
      try {
        request.body = await bodyOf(owner, request, response, gone.signal, options);
      } catch (error) {
        // A client that has left while it waited needs no answer.
        if (gone.signal.aborted) return;
        throw error;
      }
    }
    next();
  };

/** Until the room for the body is free, the client's connection is not read. */
async function bodyOf(
  owner: string,
  request: Request,
  response: Response,
  gone: AbortSignal,
  { bodies, limits, scheduler }: RouterOptions,
): Promise<Buffer> {
  const { leave } = response.locals;
  const release = await bodies.wait({ owner }, { units: bodyBytesOf(request), signal: gone });
  response.locals.leave = () => {
    release();
    leave?.();
  };
  if (gone.aborted) response.locals.leave();
  const body = await readBody(request);
  limits.written(owner, body.length);
  await scheduler.store(owner, body.length, gone);
  return body;
}

const answer =
  (route: Route, { scheduler, currentOwner, waiting, limits, clientAddress, disclosures }: RouterOptions): RequestHandler =>
  async (request, response) => {
    const { principal, owner } = response.locals;
    const handle = () => {
      const reader = principal && disclosures.readerOf(principal, request, response);
      return route.handle({ principal, reader, query: queryOf(request.originalUrl), request, response });
    };
    // Apart from the rest, so that others have a turn in between: a large body takes several milliseconds.
    if (owner !== undefined && Buffer.isBuffer(request.body)) {
      const body = request.body;
      request.body = await scheduler.run(owner, () => jsonOf(body));
    }
    const result = await (owner === undefined ? handle() : scheduler.run(owner, () => currentOwner.run(owner, handle)));
    // A stream that goes on is no work any more.
    response.locals.leave?.();
    if (result === undefined) return;
    const bytes = owner === undefined ? send(response, result) : scheduler.now(owner, () => send(response, result));
    waiting.add(response, owner ?? clientAddress(request), () => request.socket.destroy());
    if (owner === undefined) return;
    limits.answered(owner, kindOf(route), bytes);
    scheduler.chargeBytes(owner, bytes);
  };

/** Returns the length in bytes. */
function send(response: Response, result: NonNullable<HandlerResult>): number {
  if ('sentBytes' in result) return result.sentBytes;
  if ('jsonText' in result) return sendJsonText(response, 200, result.jsonText);
  return sendJson(response, result.status ?? 200, result.json);
}

const refuseMethod =
  (routes: readonly Route[]): RequestHandler =>
  (_request, response) => {
    const [route] = routes;
    if (route !== undefined) response.locals.pattern = route.path;
    const allow = routes.flatMap(({ method }) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()])).join(', ');
    throw new ProblemError('method-not-allowed', `Allowed here: ${allow}.`, { headers: { allow } });
  };

const answerProblem =
  ({ logger, limits, clock }: RouterOptions): ErrorRequestHandler =>
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- express knows an error handler by its four parameters
  (error: unknown, request, response, _next) => {
    const problem = toProblem(error);
    const { requestId, route, owner, leave } = response.locals;
    response.locals.problem = problem.code;
    if (problem.status >= 500) {
      logger[problem.status === 500 ? 'error' : 'warn']('Request failed', { requestId, operation: route?.operationId, error });
    }
    if (response.headersSent) {
      response.destroy();
      return;
    }
    const send = () => void sendJson(response, problem.status, problemBody(problem, requestId), problem.headers);
    // An owner that goes on asking at full speed gets its refusals more slowly, so that refusing takes no more than serving.
    const isCounted = owner !== undefined && isRefusal(problem);
    const { delayMs, isTooMuch } = isCounted
      ? limits.refused(owner, request.complete ? 0 : bodyBytesOf(request))
      : { delayMs: 0, isTooMuch: false };
    if (isTooMuch && !request.complete) {
      response.setHeader('connection', 'close');
      response.once('finish', () => request.socket.destroy());
    }
    if (delayMs === 0) {
      send();
      return;
    }
    leave?.();
    const timer = clock.after(delayMs, send);
    response.once('close', () => timer.cancel());
  };

const isRefusal = ({ status }: ProblemError): boolean => status === 429 || status === 503;
