import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { extname, join, sep } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { hashOf } from './page.ts';

/** A built file of the official web UI. */
export interface UiFile {
  readonly contentType: string;
  /** Whether the URL has the hash of the content, so that the content never changes. */
  readonly isImmutable: boolean;
  readonly plain: () => Buffer;
  /** The file compressed with gzip; absent for files that are compressed already. */
  readonly packed?: () => Buffer;
}

/** The official web UI, as `build/web-ui.ts` writes it. */
export interface UiFiles {
  readonly document: Buffer;
  /** Sources of the document's own scripts in a content security policy: their hashes. */
  readonly scriptHashes: readonly string[];
  /** The file of a path of a URL. Only paths of a list that is made at the start have one. */
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
    // All clients share one buffer, so that the memory has the size of the files at most.
    plain: isPacked ? once(() => gunzipSync(stored())) : stored,
    ...(isPacked ? { packed: stored } : {}),
  };
}

const hashesIn = (html: string): readonly string[] =>
  [...html.matchAll(/<script(?![^>]*\ssrc=)[^>]*>([^]*?)<\/script>/g)].map(([, script = '']) =>
    hashOf(script),
  );

/**
 * Lists the files of the web UI; undefined where the build went without it. Contents are read at
 * their first request, and kept.
 */
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
  return {
    document,
    scriptHashes: hashesIn(document.toString()),
    find: (path) => files.get(path),
  };
}
