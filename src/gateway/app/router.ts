import type { IncomingHttpHeaders } from 'node:http';
import express, { type Express, type ErrorRequestHandler, type RequestHandler } from 'express';
import type { Logger } from '../../observability/logger.ts';
import type { Authenticator } from '../auth/authenticate.ts';
import { problemBody } from '../errors/problem-body.ts';
import { ProblemError, unavailable } from '../errors/problem-error.ts';
import { toProblem } from '../errors/to-problem.ts';
import { queryOf } from './query.ts';
import type { Route } from './route.ts';
import { sendJson } from './send-json.ts';

const maxBodyBytes = 1024 * 1024;

export interface RouterOptions {
  readonly routes: readonly Route[];
  readonly authenticator: Authenticator;
  /** Whether the caches are filled, so that a key that is not found is known to be wrong. */
  readonly isSynced: () => boolean;
  readonly logger: Logger;
  /** Whether the headers show the session key of this sandbox, and it runs. */
  readonly opensSession: (sandbox: string, headers: IncomingHttpHeaders) => boolean;
}

const parseJson: RequestHandler = express.json({ limit: maxBodyBytes, type: 'application/json' });

const hasBody = ({ headers }: { readonly headers: NodeJS.Dict<string | string[]> }): boolean =>
  headers['transfer-encoding'] !== undefined || (headers['content-length'] !== undefined && headers['content-length'] !== '0');

const readBody: RequestHandler = (request, response, next) => {
  if (!hasBody(request)) {
    next();
  } else if (request.is('application/json') === false) {
    throw new ProblemError('unsupported-media-type', 'The body has to be sent as application/json.');
  } else {
    parseJson(request, response, next);
  }
};

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
      app[route.method](pattern, authenticate(route, options), ...(route.body === undefined ? [] : [readBody]), answer(route));
    }
    app.all(pattern, refuseMethod(routes));
  }
  app.use(() => {
    throw new ProblemError('route-not-found', 'There is no such endpoint. See /openapi.json.');
  });
  app.use(answerProblem(options.logger));
}

const authenticate =
  (route: Route, { authenticator, isSynced, opensSession }: RouterOptions): RequestHandler =>
  (request, response, next) => {
    response.locals.route = route;
    response.locals.pattern = route.path;
    if (route.access !== 'open') {
      response.setHeader('cache-control', 'no-store');
      if (!isSynced()) throw unavailable();
      // Not tried as an API key: it is no failed attempt.
      const { id } = request.params;
      const isSession = route.access === 'session' && typeof id === 'string' && opensSession(id, request.headers);
      if (!isSession) response.locals.principal = authenticator.authenticate(request.headers);
    }
    next();
  };

const answer =
  (route: Route): RequestHandler =>
  async (request, response) => {
    const result = await route.handle({ principal: response.locals.principal, query: queryOf(request.originalUrl), request, response });
    if (result === undefined) return;
    sendJson(response, result.status ?? 200, result.json);
  };

const refuseMethod =
  (routes: readonly Route[]): RequestHandler =>
  (_request, response) => {
    const [route] = routes;
    if (route !== undefined) response.locals.pattern = route.path;
    const allow = routes.flatMap(({ method }) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()])).join(', ');
    throw new ProblemError('method-not-allowed', `Allowed here: ${allow}.`, { headers: { allow } });
  };

const answerProblem =
  (logger: Logger): ErrorRequestHandler =>
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- express knows an error handler by its four parameters
  (error: unknown, _request, response, _next) => {
    const problem = toProblem(error);
    const { requestId, route } = response.locals;
    response.locals.problem = problem.code;
    if (problem.status >= 500) {
      logger[problem.status === 500 ? 'error' : 'warn']('Request failed', { requestId, operation: route?.operationId, error });
    }
    if (response.headersSent) {
      response.destroy();
      return;
    }
    sendJson(response, problem.status, problemBody(problem, requestId), problem.headers);
  };
