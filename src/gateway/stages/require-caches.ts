import type { RequestHandler } from 'express';
import { unavailable } from '../errors/problem-error.ts';
import type { Services } from '../services.ts';

/**
 * Refuses requests until the caches are filled: before that, a key that the cache lacks could be
 * right.
 */
export const requireCaches =
  ({ isSynced }: Services): RequestHandler =>
  (_request, _response, next) => {
    if (!isSynced()) throw unavailable();
    next();
  };
