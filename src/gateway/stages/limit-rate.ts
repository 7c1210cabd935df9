import type { RequestHandler } from 'express';
import { kindOf, type Route } from '../http/route.ts';
import type { Services } from '../services.ts';

/**
 * Counts a request against the rate of its owner, and says in the response what is left of that
 * rate.
 */
export const limitRate =
  ({ rateLimits }: Services, route: Route): RequestHandler =>
  (_request, response, next) => {
    const { owner } = response.locals;
    const headers = owner === undefined ? {} : rateLimits.request(owner, kindOf(route));
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    next();
  };
