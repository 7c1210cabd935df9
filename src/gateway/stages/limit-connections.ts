import type { RequestHandler } from 'express';
import type { Services } from '../services.ts';

/**
 * Counts the connection of a request among those of its owner, and refuses the request where there
 * are too many.
 */
export const limitConnections =
  ({ ownerConnections }: Services): RequestHandler =>
  (request, response, next) => {
    const { owner } = response.locals;
    if (owner !== undefined) ownerConnections.attribute(request.socket, owner);
    next();
  };
