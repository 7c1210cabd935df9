import { createHash } from 'node:crypto';
import type { Request, Response } from 'express';
import { z } from 'zod';
import { notFound } from '../errors/problem-error.ts';
import type { Route } from '../http/route.ts';
import { maxPathLength } from '../sign-in/request-origin.ts';
import { pageHeaders } from './page.ts';
import type { WebFiles, WebFilesReader } from './web-files.ts';

const scriptFolder = '/_web';

/** The addresses of the app. All of them have the same document, and its script reads the address. */
const addresses = [
  { path: '/', operationId: 'homePage', summary: 'The page with all conversations and the quota' },
  {
    path: '/c/{id}',
    operationId: 'conversationAppPage',
    summary: 'The page of one conversation',
    params: z.object({ id: z.string() }),
  },
  { path: '/operate', operationId: 'operatePage', summary: 'The page of the state of the service' },
] as const;

const notBuilt =
  '<!doctype html><html lang="en"><meta charset="utf-8"><title>Conversations</title><p>The pages of this service were not built: make build does.</p></html>\n';

/**
 * The policy permits the script and the style of this version alone. Agents may be behind paths of
 * this origin, so 'self' would permit scripts of theirs.
 */
const policyOf = ({ style, scriptHash }: WebFiles): string =>
  [
    "default-src 'none'",
    `script-src 'sha256-${scriptHash}'`,
    `style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`,
    "connect-src 'self'",
    "img-src 'self' data: blob:",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');

const documentOf = ({ style, scriptName, scriptHash }: WebFiles): string =>
  [
    '<!doctype html>',
    '<html lang="en">',
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<title>Conversations</title>',
    // Without an icon in the page, browsers ask for one.
    '<link rel="icon" href="data:,">',
    `<style>${style}</style>`,
    `<script defer src="${scriptFolder}/${scriptName}" integrity="sha256-${scriptHash}"></script>`,
    '<body><div id="app"></div><noscript>This page needs JavaScript.</noscript></body>',
    '</html>',
    '',
  ].join('\n');

function send(response: Response, headers: Readonly<Record<string, string>>, body: Buffer): void {
  response.set({ ...headers, 'content-length': String(body.length) });
  response.end(body);
}

const shared = { method: 'get', tag: 'pages', access: 'open' } as const;

/**
 * The sign-in, relative to the page, so that a proxy may serve a path prefix. The sign-in leads
 * back, except to an address that it does not accept; no header has room for that either.
 */
function loginFor({ path, originalUrl }: Request): string {
  const login = `${'../'.repeat(path.split('/').length - 2)}login`;
  return originalUrl.length > maxPathLength
    ? login
    : `${login}?return_to=${encodeURIComponent(originalUrl)}`;
}

export interface AppOptions {
  readonly files: WebFilesReader;
  /** Whether the request has a session. */
  readonly isSignedIn: (request: Request) => boolean;
}

/**
 * The pages of the app. The documents contain nothing that needs a key; a browser without a session
 * is sent to the sign-in.
 */
export function appRoutes({ files, isSignedIn }: AppOptions): readonly Route[] {
  let document: { readonly policy: string; readonly body: Buffer } | undefined;
  const make = () => {
    const built = files();
    if (built === undefined) return { policy: "default-src 'none'", body: Buffer.from(notBuilt) };
    return (document ??= { policy: policyOf(built), body: Buffer.from(documentOf(built)) });
  };
  return addresses.map((address): Route => ({
    ...shared,
    ...address,
    mediaType: 'text/html',
    responses: { 200: z.string(), 303: z.string() },
    handle: ({ request, response }) => {
      if (!isSignedIn(request)) {
        response.set({ location: loginFor(request), 'cache-control': 'no-store' });
        response.status(303).end();
        return undefined;
      }
      const { policy, body } = make();
      send(response, pageHeaders(policy), body);
      return undefined;
    },
  }));
}

/** The script of the app. The OpenAPI document does not have it: only the pages know its name. */
export const appScript = (files: WebFilesReader): Route => ({
  ...shared,
  path: `${scriptFolder}/{file}`,
  operationId: 'pageScript',
  summary: 'The script of the pages; its name has its hash',
  responses: { 200: z.string() },
  handle: ({ request, response }) => {
    const built = files();
    if (built === undefined || request.params['file'] !== built.scriptName)
      throw notFound('page script');
    const isPacked = request.acceptsEncodings('gzip') === 'gzip';
    send(
      response,
      {
        'content-type': 'text/javascript; charset=utf-8',
        'cache-control': 'public, max-age=31536000, immutable',
        'cross-origin-resource-policy': 'same-origin',
        vary: 'Accept-Encoding',
        ...(isPacked ? { 'content-encoding': 'gzip' } : {}),
      },
      isPacked ? built.packedScript : built.script,
    );
    return undefined;
  },
});
