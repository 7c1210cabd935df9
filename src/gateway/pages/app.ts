import type { Request } from 'express';
import { z } from 'zod';
import { notFound } from '../errors/common-problems.ts';
import { endpoints, type Route } from '../http/route.ts';
import { escapeHtml, hashOf, pageHeaders, redirectToLogin } from './page.ts';
import { immutable, sendFile, sendStatic } from '../http/send-bytes.ts';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';

interface WebScript {
  /** File name in the URL. The name contains a hash, so the content of a URL never changes. */
  readonly name: string;
  readonly content: Buffer;
  readonly packed: Buffer;
  /** Hash of the content, for the HTML attribute `integrity`. */
  readonly integrity: string;
}

interface WebFiles {
  readonly style: string;
  readonly main: WebScript;
  /** Scripts that a page loads on demand, by the name of the part of the app. */
  readonly parts: ReadonlyMap<string, WebScript>;
}

/** Returns the built files; undefined if the pages were not built. */
type WebFilesReader = () => WebFiles | undefined;

/** Reads the files that `build.ts` builds from `src/web` at the first call, and caches them. */
export function webFilesOf(directory: string | undefined): WebFilesReader {
  let files: WebFiles | undefined;
  return () => (files ??= readWebFiles(directory));
}

function readWebFiles(directory: string | undefined): WebFiles | undefined {
  if (directory === undefined) return undefined;
  const [main, style] = [join(directory, 'app.js'), join(directory, 'styles.css')];
  if (!existsSync(main) || !existsSync(style)) return undefined;
  const folder = join(directory, 'parts');
  const parts = readdirSync(folder).map((file) => scriptOf(join(folder, file)));
  return {
    style: readFileSync(style, 'utf8').trim(),
    main: scriptOf(main).script,
    parts: new Map(parts.map(({ part, script }) => [part, script])),
  };
}

function scriptOf(path: string): { readonly part: string; readonly script: WebScript } {
  const content = readFileSync(path);
  const part = basename(path, '.js');
  const digest = createHash('sha256').update(content).digest();
  const script = {
    name: `${part}-${digest.toString('hex').slice(0, 16)}.js`,
    content,
    packed: gzipSync(content, { level: 9 }),
    integrity: `sha256-${digest.toString('base64')}`,
  };
  return { part, script };
}

const scriptFolder = '/_web';

/** The URL paths of the app. All serve the same document, whose script reads the path. */
const addresses = [
  { path: '/', operationId: 'homePage', summary: 'The page with all conversations and the quota' },
  {
    path: '/c/{id}',
    operationId: 'conversationAppPage',
    summary: 'The page of one conversation',
    params: z.object({ id: z.string() }),
  },
  {
    path: '/account',
    operationId: 'accountPage',
    summary: 'The page of the settings and secrets of an owner',
  },
  {
    path: '/usage',
    operationId: 'usagePage',
    summary: 'The page of what an owner spends on models',
  },
  { path: '/operate', operationId: 'operatePage', summary: 'The page of the state of the service' },
] as const;

/** The icon of the pages. Its smallest size in browsers is 16 px. */
const icon =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1d5fc2"/><path d="M8 9h16v11H15l-5 4v-4H8z" fill="#ffffff"/></svg>';

/** The web app manifest, which makes the pages installable. */
const manifest = {
  name: 'Conversations',
  short_name: 'Conversations',
  id: '/',
  start_url: '/',
  scope: '/',
  display: 'standalone',
  background_color: '#16181d',
  theme_color: '#1d5fc2',
  icons: [{ src: 'icon.svg', sizes: 'any', type: 'image/svg+xml', purpose: 'any' }],
};

/** Files other than scripts. Their names stay the same when their content changes. */
const namedFiles: ReadonlyMap<string, { readonly type: string; readonly body: Buffer }> = new Map([
  ['icon.svg', { type: 'image/svg+xml', body: Buffer.from(icon) }],
  [
    'manifest.webmanifest',
    { type: 'application/manifest+json', body: Buffer.from(JSON.stringify(manifest)) },
  ],
]);

const notBuilt =
  '<!doctype html><html lang="en"><meta charset="utf-8"><title>Conversations</title><p>The pages of this service were not built: make build does.</p></html>\n';

const scriptsOf = ({ main, parts }: WebFiles): readonly WebScript[] => [main, ...parts.values()];

/**
 * The Content-Security-Policy only permits the scripts and the style of this version. Agents may
 * have paths of this origin, so 'self' would permit their scripts. The main script loads the parts;
 * its Trusted Types policy only accepts their URLs.
 */
const policyOf = (files: WebFiles): string =>
  [
    "default-src 'none'",
    `script-src ${scriptsOf(files)
      .map(({ integrity }) => `'${integrity}'`)
      .join(' ')}`,
    `style-src ${hashOf(files.style)}`,
    // The Trusted Types policy limits the URLs of workers further.
    "worker-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data: blob:",
    "manifest-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    'trusted-types parts',
  ].join('; ');

/** URLs and hashes of the parts as JSON, escaped for an HTML attribute. */
function partsText({ parts }: WebFiles, folder: string): string {
  const files = [...parts].map(([part, { name, integrity }]) => {
    const file = { src: `${folder}/${name}`, integrity };
    return [part, file] as const;
  });
  return escapeHtml(JSON.stringify(Object.fromEntries(files)));
}

interface DocumentOptions {
  /** URL of the folder of the scripts, absolute or relative to the page. */
  readonly folder: string;
  /** Attributes of the element `app`, which the script reads. */
  readonly attributes: readonly string[];
  readonly isInstallable: boolean;
}

const documentOf = (
  files: WebFiles,
  { folder, attributes, isInstallable }: DocumentOptions,
): string =>
  [
    '<!doctype html>',
    '<html lang="en">',
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<title>Conversations</title>',
    `<link rel="icon" type="image/svg+xml" href="${folder}/icon.svg">`,
    ...(isInstallable ? [`<link rel="manifest" href="${folder}/manifest.webmanifest">`] : []),
    '<meta name="theme-color" content="#1d5fc2">',
    `<style>${files.style}</style>`,
    `<script defer src="${folder}/${files.main.name}" integrity="${files.main.integrity}"></script>`,
    `<body><div id="app" data-parts="${partsText(files, folder)}"${attributes.map((name) => ` ${name}`).join('')}></div><noscript>This page needs JavaScript.</noscript></body>`,
    '</html>',
    '',
  ].join('\n');

interface HtmlDocument {
  readonly policy: string;
  readonly body: Buffer;
}

/** Returns a function that creates the document once the pages were built. */
function documentMaker(files: WebFilesReader, options: DocumentOptions): () => HtmlDocument {
  let document: HtmlDocument | undefined;
  return () => {
    const built = files();
    if (built === undefined) return { policy: "default-src 'none'", body: Buffer.from(notBuilt) };
    return (document ??= {
      policy: policyOf(built),
      body: Buffer.from(documentOf(built, options)),
    });
  };
}

const { getOpen } = endpoints('pages');

export interface AppOptions {
  readonly files: WebFilesReader;
  /** Whether the service also serves the official web UI. */
  readonly hasUi: boolean;
  readonly isSignedIn: (request: Request) => boolean;
}

/**
 * The pages of the app. The HTML document contains no data of an owner. A browser without a session
 * is redirected to the sign-in.
 */
export function appRoutes({ files, hasUi, isSignedIn }: AppOptions): readonly Route[] {
  // The script links to the web UI if the attribute is set.
  const make = documentMaker(files, {
    folder: scriptFolder,
    attributes: hasUi ? ['data-has-ui'] : [],
    isInstallable: true,
  });
  return addresses.map(({ path, operationId, ...address }) =>
    getOpen(path, operationId, {
      ...address,
      mediaType: 'text/html',
      responses: { 200: z.string(), 303: z.string(), 304: z.unknown() },
      handle: ({ request, response }) => {
        if (!isSignedIn(request)) return redirectToLogin(response);
        const { policy, body } = make();
        return sendStatic(response, pageHeaders(policy), body);
      },
    }),
  );
}

/**
 * The page of a shared conversation, without a sign-in. Its URLs are relative, so that a proxy may
 * serve a path prefix. The document is the same for every token; the page leads somebody who is not
 * signed in to the sign-in where the token opens nothing.
 */
export function sharedPageRoute({
  files,
  isSignedIn,
}: Pick<AppOptions, 'files' | 'isSignedIn'>): Route {
  const maker = (...attributes: readonly string[]) =>
    documentMaker(files, { folder: `..${scriptFolder}`, attributes, isInstallable: false });
  const [forAnyone, forPerson] = [maker('data-shared'), maker('data-shared', 'data-signed-in')];
  return getOpen('/shared/{token}', 'sharedPage', {
    summary: 'The page of a shared conversation, to read it',
    params: z.object({ token: z.string() }),
    mediaType: 'text/html',
    responses: { 200: z.string(), 304: z.unknown() },
    handle: ({ request, response }) => {
      const { policy, body } = isSignedIn(request) ? forPerson() : forAnyone();
      // The address is the secret: no request of the page may tell it.
      const headers = { ...pageHeaders(policy), 'referrer-policy': 'no-referrer' };
      return sendStatic(response, headers, body);
    },
  });
}

/** The scripts of the app. The OpenAPI document omits them, because their names contain hashes. */
export const appScript = (files: WebFilesReader): Route =>
  getOpen(`${scriptFolder}/{file}`, 'pageScript', {
    summary: 'A script of the pages, whose name has its hash; their icon and manifest',
    responses: { 200: z.string() },
    handle: ({ request, response }) => {
      const named = namedFiles.get(String(request.params['file']));
      if (named !== undefined) {
        const headers = { 'content-type': named.type, 'cache-control': 'no-cache' };
        return sendStatic(response, headers, named.body);
      }
      const built = files();
      const scripts = built === undefined ? [] : scriptsOf(built);
      const script = scripts.find(({ name }) => name === request.params['file']);
      if (script === undefined) throw notFound('page script');
      return sendFile(
        response,
        {
          'content-type': 'text/javascript; charset=utf-8',
          'cache-control': immutable,
          // A worker is subject to the policy of its own script.
          'content-security-policy': "default-src 'none'",
        },
        { plain: () => script.content, packed: () => script.packed },
      );
    },
  });
