import type { RequestHandler } from 'express';
import { queryOf } from '@conversation-operator/http/server/query';
import type { Route } from '../http/route.ts';
import type { Services } from '../services.ts';

/** Parameters of the query that may be given more than once. */
const repeatable: ReadonlySet<string> = new Set(['id', 'ids']);

/**
 * Runs the handler of the route in a turn of the owner. The handler first validates what its
 * schemas name.
 */
export const handle =
  ({ scheduler, currentOwner, disclosures }: Services, route: Route): RequestHandler =>
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
