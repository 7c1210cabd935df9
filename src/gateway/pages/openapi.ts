import { z } from 'zod';
import type { Route } from '../http/route.ts';
import { docsPage } from './docs.ts';
import { pageRoute } from './page.ts';
import { endpoints } from '../v1/endpoints.ts';
import { openApiDocument, type OpenApiDocument } from '../openapi/document.ts';

/**
 * Serves the document of all routes, these two included, and the page that shows it. The first
 * request makes the document.
 */
export function openApiRoutes(
  routes: readonly Route[],
  info: { readonly version: string; readonly publicUrl: () => string },
): readonly Route[] {
  let made: OpenApiDocument | undefined;
  const document = () =>
    (made ??= openApiDocument([...routes, ...own], {
      version: info.version,
      serverUrl: info.publicUrl(),
    }));
  const own: readonly Route[] = [
    endpoints('health').getOpen('/openapi.json', 'openapi', {
      summary: 'This document',
      responses: { 200: z.record(z.string(), z.unknown()) },
      handle: () => ({ json: document() }),
    }),
    pageRoute({
      path: '/docs',
      operationId: 'docs',
      summary: 'This document for people',
      page: () => docsPage(document()),
    }),
  ];
  return own;
}
