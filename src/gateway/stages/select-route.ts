import type { RequestHandler } from 'express';
import { ProblemError } from '../errors/problem-error.ts';
import type { Route } from '../http/route.ts';

/** Names the route of a request for the stages that follow, for logs and for metrics. */
export const selectRoute =
  (route: Route): RequestHandler =>
  (_request, response, next) => {
    response.locals.route = route;
    response.locals.pattern = route.path;
    if (route.access !== 'open') response.setHeader('cache-control', 'no-store');
    next();
  };

/** Refuses a method that no route of the path has. */
export const refuseMethod =
  (routes: readonly Route[]): RequestHandler =>
  (_request, response) => {
    response.locals.pattern = routes[0]?.path;
    const allow = routes
      .flatMap(({ method }) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]))
      .join(', ');
    throw new ProblemError('method-not-allowed', `Allowed here: ${allow}.`, { headers: { allow } });
  };

/** Refuses a path that no route has. */
export const refusePath: RequestHandler = () => {
  throw new ProblemError('route-not-found', 'There is no such endpoint. See /openapi.json.');
};
