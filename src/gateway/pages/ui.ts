import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { endpoints, type Route } from '../http/route.ts';
import { pageHeaders, redirect, redirectToLogin, hashOf } from './page.ts';
import { immutable, sendFile, sendStatic } from '../http/send-bytes.ts';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { extname, join, sep } from 'node:path';
import { gunzipSync } from 'node:zlib';

interface UiFile {
  readonly contentType: string;
  /** Whether the URL contains a hash of the content, so that the content never changes. */
  readonly isImmutable: boolean;
  readonly plain: () => Buffer;
  /** The file compressed with gzip; absent for files whose format is already compressed. */
  readonly packed?: () => Buffer;
}

interface UiFiles {
  readonly document: Buffer;
  /** Hashes of the document's inline scripts, as sources of a content security policy. */
  readonly scriptHashes: readonly string[];
  /** The file at a URL path; undefined if the folder had no such file when the process started. */
  readonly find: (path: string) => UiFile | undefined;
}

const mediaTypes: Readonly<Record<string, string>> = {
  '': 'text/plain; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.mp3': 'audio/mpeg',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.xml': 'application/xml',
};

const documentName = 'index.html';
const packedEnd = '.gz';

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

function fileOf(directory: string, name: string, path: string): UiFile {
  const stored = once(() => readFileSync(join(directory, name)));
  const isPacked = name.endsWith(packedEnd);
  return {
    contentType: mediaTypes[extname(path)] ?? 'application/octet-stream',
    isImmutable: path.startsWith('/assets/'),
    // All clients share one buffer, so the memory never exceeds the size of the files.
    plain: isPacked ? once(() => gunzipSync(stored())) : stored,
    ...(isPacked ? { packed: stored } : {}),
  };
}

const hashesIn = (html: string): readonly string[] =>
  [...html.matchAll(/<script(?![^>]*\ssrc=)[^>]*>([^]*?)<\/script>/g)].map(([, script = '']) =>
    hashOf(script),
  );

/** Lists the web UI's files. Each is read once on demand. Undefined if the folder has none. */
export function uiFilesOf(directory: string | undefined): UiFiles | undefined {
  if (directory === undefined || !existsSync(join(directory, documentName))) return undefined;
  const files = new Map<string, UiFile>();
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || entry.name === documentName) continue;
    const name = join(entry.parentPath, entry.name)
      .slice(directory.length)
      .replace(/^[/\\]/, '');
    const plainName = name.endsWith(packedEnd) ? name.slice(0, -packedEnd.length) : name;
    const path = `/${plainName.split(sep).join('/')}`;
    files.set(path, fileOf(directory, name, path));
  }
  const document = readFileSync(join(directory, documentName));
  return { document, scriptHashes: hashesIn(document.toString()), find: (path) => files.get(path) };
}

export interface UiOptions {
  /** Undefined if this service serves no web UI. */
  readonly files: UiFiles | undefined;
  /** URL of the service, without a slash at the end. */
  readonly publicUrl: () => string;
  /** Content-Security-Policy sources that permit the origins of sandboxes. */
  readonly sandboxSources: () => readonly string[];
  readonly isSignedIn: (request: Request) => boolean;
}

const plainHost = /^[a-z0-9.-]+(?::\d{1,5})?$/i;

/**
 * The Content-Security-Policy permits other hosts only for connections to sandboxes. Agents may
 * have paths of this origin, so 'self' would permit their scripts: scripts and styles are only
 * permitted below `/assets/`. A source without a scheme has the scheme of the page. The sources
 * name the host of the request and the public host, because a proxy may replace the former host.
 */
function policyFor({ headers }: Request, files: UiFiles, options: UiOptions): string {
  const hosts = new Set([headers.host ?? '', new URL(options.publicUrl()).host]);
  const assets = [...hosts].filter((host) => plainHost.test(host)).map((host) => `${host}/assets/`);
  return [
    "default-src 'none'",
    `script-src ${[...files.scriptHashes, ...assets].join(' ')}`,
    // The document and its components set style attributes, which no hash can permit.
    `style-src ${[...assets, "'unsafe-inline'"].join(' ')}`,
    `connect-src ${["'self'", ...options.sandboxSources()].join(' ')}`,
    "img-src 'self' data: blob:",
    "media-src 'self' data: blob:",
    "font-src 'self' data:",
    "manifest-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; ');
}

function sendDocument(response: Response, files: UiFiles, options: UiOptions): 'sent' {
  const { req: request } = response;
  return options.isSignedIn(request)
    ? sendStatic(response, pageHeaders(policyFor(request, files, options)), files.document)
    : redirectToLogin(response);
}

export const chatRoute = (options: UiOptions): Route =>
  endpoints('pages').getOpen('/conversations/{id}', 'conversationPage', {
    summary: 'The chat of a conversation in the official web UI; without that 303 to /c/{id}',
    params: z.object({ id: z.string() }),
    mediaType: 'text/html',
    responses: { 200: z.string(), 303: z.string(), 304: z.unknown() },
    handle: ({ request, response }) => {
      const { files } = options;
      const { id = '' } = request.params;
      return files === undefined
        ? redirect(response, `../c/${encodeURIComponent(String(id))}`)
        : sendDocument(response, files, options);
    },
  });

const roomOf = (path: string): string => path.split('/')[1] ?? '';

/** First path segments that belong to the service although no route begins with them. */
const furtherRooms = ['oauth', 'sandboxes', 'api'];

/**
 * Serves the files of the web UI, and its document at every other path of a page. Paths whose first
 * segment belongs to a route stay with the service, so that a wrong path there still gets 404.
 */
export function uiPages(options: UiOptions, routes: readonly Route[]): RequestHandler {
  const rooms = new Set([...routes.map(({ path }) => roomOf(path)), ...furtherRooms]);
  rooms.delete(roomOf('/conversations'));
  return (request, response, next) => {
    const { files } = options;
    if (files === undefined || (request.method !== 'GET' && request.method !== 'HEAD')) {
      next();
      return;
    }
    const file = files.find(request.path);
    if (file !== undefined) {
      response.locals.pattern = 'web-ui-file';
      const cacheControl = file.isImmutable ? immutable : 'no-cache';
      const headers = { 'content-type': file.contentType, 'cache-control': cacheControl };
      sendFile(response, headers, file);
    } else if (isPage(request, rooms)) {
      response.locals.pattern = 'web-ui-page';
      sendDocument(response, files, options);
    } else next();
  };
}

/** Whether a browser requests a page, at a path that belongs to no file and to no route. */
const isPage = ({ path, headers }: Request, rooms: ReadonlySet<string>): boolean =>
  /\btext\/html\b/.test(headers.accept ?? '') &&
  !rooms.has(roomOf(path)) &&
  !path.startsWith('/assets/');
