import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

/** The built script and style of the pages. */
export interface WebFiles {
  readonly style: string;
  /** Name of the script in its URL: a hash is part of it, so that its content never changes. */
  readonly scriptName: string;
  readonly script: Buffer;
  readonly packedScript: Buffer;
  /** SHA-256 of the script in base64. */
  readonly scriptHash: string;
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
  const [scriptPath, stylePath] = [join(directory, 'app.js'), join(directory, 'styles.css')];
  if (!existsSync(scriptPath) || !existsSync(stylePath)) return undefined;
  const script = readFileSync(scriptPath);
  const digest = createHash('sha256').update(script).digest();
  return {
    style: readFileSync(stylePath, 'utf8').trim(),
    scriptName: `app-${digest.toString('hex').slice(0, 16)}.js`,
    script,
    packedScript: gzipSync(script, { level: 9 }),
    scriptHash: digest.toString('base64'),
  };
}
