import type { AsyncLocalStorage } from 'node:async_hooks';
import type { Disclosures } from '../auth/disclosures.ts';
import type { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import type { RequestHandler } from 'express';
import type { Route } from '../http/route.ts';
import { Refusal } from '@conversation-operator/http/refusal';

/** Parameters of the query that may be given more than once. */
const repeatable: ReadonlySet<string> = new Set(['id', 'ids']);

/**
 * Runs the handler of the route in a turn of the owner. The handler first validates what its
 * schemas name.
 */
export const handle =
  (
    {
      scheduler,
      currentOwner,
      disclosures,
    }: {
      readonly scheduler: FairScheduler;
      readonly currentOwner: AsyncLocalStorage<string>;
      readonly disclosures: Disclosures;
    },
    route: Route,
  ): RequestHandler =>
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

/**
 * Refuses a query that parsers repair in different ways: a percent sign without digits, or bytes
 * that are not UTF-8. Refuses NUL too.
 */
function refuseUnreadable(query: string): void {
  if (!query.includes('%')) return;
  try {
    if (!decodeURIComponent(query).includes('\0')) return;
  } catch {
    // The error is thrown below.
  }
  throw new Refusal('malformed-request', 'The query is not percent-encoded UTF-8 text.');
}

/**
 * The query of a request target. Throws `malformed-request`.
 * @param repeatable Parameters that may be given more than once; their values are lists, also with
 * one element. The last value of every other parameter counts.
 */
function queryOf(
  target: string,
  repeatable: ReadonlySet<string>,
): Readonly<Record<string, string | readonly string[] | undefined>> {
  const start = target.indexOf('?');
  if (start < 0) return {};
  refuseUnreadable(target.slice(start));
  const parameters = new URLSearchParams(target.slice(start));
  return Object.fromEntries(
    [...new Set(parameters.keys())].map((name) => {
      const values = parameters.getAll(name);
      return [name, repeatable.has(name) ? values : values.at(-1)];
    }),
  );
}
