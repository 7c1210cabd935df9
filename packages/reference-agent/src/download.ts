import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, isAbsolute } from 'node:path';
import { Readable } from 'node:stream';
import { HttpError } from './http-error.ts';

/** Content of a file, as long as the file was when it was opened. */
export interface Download {
  readonly name: string;
  readonly bytes: number;
  /** Closes the file at its end, and when it is destroyed. */
  readonly content: Readable;
}

/** Opens a file of this machine. A pipe in its place is not waited for. */
export async function download(path: string): Promise<Download> {
  if (!isAbsolute(path)) throw new HttpError(400, 'Path must be absolute');
  if (path.includes('\0')) throw new HttpError(404, 'File not found');
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch(
    (error: unknown) => {
      throw openError(error);
    },
  );
  const found = await file.stat();
  const bytes = found.isFile() ? found.size : 0;
  if (bytes > 0)
    return { name: basename(path), bytes, content: file.createReadStream({ end: bytes - 1 }) };
  await file.close();
  if (!found.isFile()) throw new HttpError(400, 'Path is not a file');
  return { name: basename(path), bytes, content: Readable.from([]) };
}

const absent: ReadonlySet<unknown> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG']);

function openError(error: unknown): HttpError {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (absent.has(code)) return new HttpError(404, 'File not found');
  // A socket or a device without its driver.
  if (code === 'ENXIO' || code === 'ENODEV') return new HttpError(400, 'Path is not a file');
  return new HttpError(400, `The file can not be read (${String(code)})`);
}

/** Value of the header Content-Disposition (RFC 6266). */
export function dispositionOf(name: string): string {
  const encoded = encodeURIComponent(name.toWellFormed());
  return encoded === name
    ? `attachment; filename="${name}"`
    : `attachment; filename*=utf-8''${encoded}`;
}
