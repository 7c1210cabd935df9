import { z } from 'zod';
import { keyRoute, type Route } from '../http/route.ts';

type Definition<P, Q, B, H> = Omit<
  Parameters<typeof keyRoute<P, Q, B, H>>[0],
  'method' | 'path' | 'operationId' | 'tag'
>;

/**
 * Makes the endpoints of one tag of the OpenAPI document. Each of them needs an API key, and begins
 * with its path and its `operationId`.
 */
export function endpoints(tag: string) {
  const of =
    (method: Route['method']) =>
    <P = undefined, Q = undefined, B = undefined, H = undefined>(
      path: string,
      operationId: string,
      definition: Definition<P, Q, B, H>,
    ): Route =>
      keyRoute<P, Q, B, H>({ ...definition, method, path, operationId, tag });
  return { get: of('get'), post: of('post'), patch: of('patch'), remove: of('delete') };
}

/** The answer of an endpoint that has nothing to show. */
export const successSchema = z.object({ success: z.literal(true) });
export const success = { json: { success: true } } as const;
