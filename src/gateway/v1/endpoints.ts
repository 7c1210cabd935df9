import { z } from 'zod';
import { keyRoute, openRoute, type Route } from '../http/route.ts';

type Definition<T> = Omit<T, 'method' | 'path' | 'operationId' | 'tag'>;
type KeyRoute<P, Q, B, H> = Parameters<typeof keyRoute<P, Q, B, H>>[0];
type OpenRoute = Parameters<typeof openRoute>[0];

/**
 * Makes the endpoints of one tag of the OpenAPI document. Each begins with its path and its
 * `operationId`. Those of `getOpen` need no API key.
 */
export function endpoints(tag: string) {
  const of =
    (method: Route['method']) =>
    <P = undefined, Q = undefined, B = undefined, H = undefined>(
      path: string,
      operationId: string,
      definition: Definition<KeyRoute<P, Q, B, H>>,
    ): Route =>
      keyRoute<P, Q, B, H>({ ...definition, method, path, operationId, tag });
  return {
    get: of('get'),
    post: of('post'),
    patch: of('patch'),
    remove: of('delete'),
    getOpen: (path: string, operationId: string, definition: Definition<OpenRoute>): Route =>
      openRoute({ ...definition, method: 'get', path, operationId, tag }),
  };
}

/** The answer of an endpoint that has nothing to show. */
export const successSchema = z.object({ success: z.literal(true) });
export const success = { json: { success: true } } as const;
