import type { RequestHandler } from 'express';
import type { Services } from '../services.ts';

/** Marks the response for pages of the allowed origins, and answers their preflights. */
export const answerPreflight =
  ({ allowOrigins }: Services): RequestHandler =>
  (request, response, next) => {
    if (allowOrigins(request, response)) response.locals.pattern = 'preflight';
    else next();
  };
