import type { RateLimits } from '@conversation-operator/http/limits/rate-limits';
import type { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import type { Shares } from '@conversation-operator/base/shares';
import type { Request, RequestHandler } from 'express';
import {
  bodyBytesOf,
  hasBody,
  jsonOf,
  readBody as readAll,
} from '@conversation-operator/http/body/json-body';
import type { Route } from '../http/route.ts';

const isJson = ({ headers }: Request): boolean =>
  /^application\/json\s*(;|$)/i.test(headers['content-type'] ?? '');

/**
 * Reads the body of a request as soon as there is room for it. The client's connection is not read
 * until then. Where the endpoint has no body, JSON is read all the same: its fields are refused.
 */
export const readBody =
  (
    {
      places,
      rateLimits,
      scheduler,
    }: {
      readonly places: { readonly bodies: Shares };
      readonly rateLimits: RateLimits;
      readonly scheduler: FairScheduler;
    },
    { body: schema, maxForwardedBytes }: Route,
  ): RequestHandler =>
  async (request, response, next) => {
    const { owner, leave } = response.locals;
    const isRead = hasBody(request) && (schema !== undefined || isJson(request));
    if (!isRead || owner === undefined) {
      next();
      return;
    }
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    try {
      const units = bodyBytesOf(request, maxForwardedBytes);
      const release = await places.bodies.wait({ owner }, { units, signal: gone.signal });
      response.locals.leave = () => {
        release();
        leave?.();
      };
      if (gone.signal.aborted) response.locals.leave();
      const body = await readAll(request, maxForwardedBytes);
      scheduler.chargeBytes(owner, body.length);
      if (maxForwardedBytes === undefined) rateLimits.written(owner, body.length);
      request.body = body;
    } catch (error) {
      // A client that has left while it waited needs no response.
      if (gone.signal.aborted) return;
      throw error;
    }
    next();
  };

/**
 * Parses the body in a turn of its own on the event loop: a large body takes several milliseconds.
 */
export const parseBody =
  ({ scheduler }: { readonly scheduler: FairScheduler }): RequestHandler =>
  async (request, response, next) => {
    const { owner } = response.locals;
    const body = request.body as unknown;
    if (owner !== undefined && Buffer.isBuffer(body))
      request.body = await scheduler.run(owner, () => jsonOf(body));
    next();
  };
