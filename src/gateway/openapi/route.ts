import { z } from 'zod';
import { openRoute, type Route } from '../app/route.ts';
import { openApiDocument } from './document.ts';

/** Serves the document of all routes, this one included. It is made once, when it is first asked for. */
export function openApiRoute(routes: readonly Route[], info: { readonly version: string; readonly publicUrl: () => string }): Route {
  let document: unknown;
  const route = openRoute({
    method: 'get',
    path: '/openapi.json',
    operationId: 'openapi',
    tag: 'health',
    summary: 'This document',
    answers: { 200: z.record(z.string(), z.unknown()) },
    handle: () => {
      document ??= openApiDocument([...routes, route], { version: info.version, serverUrl: info.publicUrl() });
      return { json: document };
    },
  });
  return route;
}
