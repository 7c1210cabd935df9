import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';

/** A built script of the pages. */
export interface WebScript {
  /** Name in its URL: a hash is part of it, so that its content never changes. */
  readonly name: string;
  readonly content: Buffer;
  readonly packed: Buffer;
  /** The hash of the content, in the form of an attribute `integrity`. */
  readonly integrity: string;
}

/** The built scripts and the style of the pages. */
export interface WebFiles {
  readonly style: string;
  readonly main: WebScript;
  /** Scripts that a page loads when it needs them, by the names of the parts. */
  readonly parts: ReadonlyMap<string, WebScript>;
}

/** Gets the built files; undefined where the pages were not built. */
export type WebFilesReader = () => WebFiles | undefined;

/** Reads the files that `build.ts` makes of `src/web` at the first request, and keeps them. */
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
