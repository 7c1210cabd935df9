import type { RequestHandler } from 'express';
import { kindOf, type Route } from '../http/route.ts';
import type { Services } from '../services.ts';

/**
 * Counts a request against the limits of its owner: its connections, its rate, and its requests
 * under way, among which the request holds a place until the response gives it back. The response
 * says what is left of the rate.
 */
export const limitOwner =
  ({ ownerConnections, rateLimits, loadShedder }: Services, route: Route): RequestHandler =>
  (request, response, next) => {
    const { owner } = response.locals;
    if (owner !== undefined) {
      ownerConnections.attribute(request.socket, owner);
      const headers = rateLimits.request(owner, kindOf(route));
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      response.locals.leave = loadShedder.enter(owner, kindOf(route));
    }
    next();
  };
