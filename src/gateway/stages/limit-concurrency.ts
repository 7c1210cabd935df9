import type { RequestHandler } from 'express';
import { kindOf, type Route } from '../http/route.ts';
import type { Services } from '../services.ts';

/** Takes a place among the requests under way, which the response gives back. */
export const limitConcurrency =
  ({ loadShedder }: Services, route: Route): RequestHandler =>
  (_request, response, next) => {
    const { owner } = response.locals;
    if (owner !== undefined) response.locals.leave = loadShedder.enter(owner, kindOf(route));
    next();
  };
