import type { Request, RequestHandler, Response } from 'express';
import {
  bodyBytesOf,
  hasBody,
  jsonOf,
  readBody as readAll,
} from '@conversation-operator/http/body/json-body';
import type { Route } from '../http/route.ts';
import type { Services } from '../services.ts';

/**
 * Reads the body of a request as soon as there is room for it.
 */
export const readBody =
  (services: Services, route: Route): RequestHandler =>
  async (request, response, next) => {
    const { owner } = response.locals;
    if (hasBody(request) && owner !== undefined) {
      const gone = new AbortController();
      response.once('close', () => gone.abort());
      try {
        request.body = await bodyOf(services, route, {
          owner,
          request,
          response,
          gone: gone.signal,
        });
      } catch (error) {
        // A client that has left while it waited needs no response.
        if (gone.signal.aborted) return;
        throw error;
      }
    }
    next();
  };

interface Reading {
  readonly owner: string;
  readonly request: Request;
  readonly response: Response;
  /** Aborted when the client leaves. */
  readonly gone: AbortSignal;
}

/** The client's connection is not read until the room for the body is free. */
async function bodyOf(
  { places, rateLimits, scheduler }: Services,
  { maxForwardedBytes }: Route,
  { owner, request, response, gone }: Reading,
): Promise<Buffer> {
  const { leave } = response.locals;
  const units = bodyBytesOf(request, maxForwardedBytes);
  const release = await places.bodies.wait({ owner }, { units, signal: gone });
  response.locals.leave = () => {
    release();
    leave?.();
  };
  if (gone.aborted) response.locals.leave();
  const body = await readAll(request, maxForwardedBytes);
  scheduler.chargeBytes(owner, body.length);
  if (maxForwardedBytes === undefined) rateLimits.written(owner, body.length);
  return body;
}

/**
 * Parses the body in a turn of its own on the event loop: a large body takes several milliseconds.
 */
export const parseBody =
  ({ scheduler }: Services): RequestHandler =>
  async (request, response, next) => {
    const { owner } = response.locals;
    const body = request.body as unknown;
    if (owner !== undefined && Buffer.isBuffer(body))
      request.body = await scheduler.run(owner, () => jsonOf(body));
    next();
  };
