import { mkdir, writeFile, open } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { dirname, isAbsolute, basename } from 'node:path';
import { HttpError, type Download } from './router.ts';
import { constants } from 'node:fs';
import { Readable } from 'node:stream';

const maxBodyBytes = 8 * 1024 * 1024;

/** Reads the whole body. Throws HttpError 413 beyond `maxBodyBytes`. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBodyBytes) throw new HttpError(413, 'Request Entity Too Large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Writes the form field `file` to a path of this machine, and creates the parent folders. */
export async function upload(request: IncomingMessage, path: string): Promise<object> {
  if (!isAbsolute(path)) throw new HttpError(400, 'Path must be absolute');
  const file = fileIn(await readBody(request), request.headers['content-type'] ?? '');
  if (file === undefined)
    throw new HttpError(422, [{ type: 'missing', loc: ['body', 'file'], msg: 'Field required' }]);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, file);
  return { success: true, file_size: file.length };
}

/** Returns the part `file` of a form (RFC 7578, the subset that clients use). */
function fileIn(body: Buffer, contentType: string): Buffer | undefined {
  const [, quoted, plain] =
    /^multipart\/form-data;.*\bboundary=(?:"([^"]{1,200})"|([^\s;]{1,200}))/i.exec(contentType) ??
    [];
  const boundary = quoted ?? plain;
  if (boundary === undefined) return undefined;
  // A line break before the first boundary makes all delimiters equal.
  const text = Buffer.concat([Buffer.from('\r\n'), body]);
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  for (
    let at = text.indexOf(delimiter);
    at >= 0;
    at = text.indexOf(delimiter, at + delimiter.length)
  ) {
    const head = text.indexOf('\r\n\r\n', at);
    const end = text.indexOf(delimiter, at + delimiter.length);
    if (head < 0 || end < head) return undefined;
    if (
      /^content-disposition:.*\bname="file"/im.test(
        text.toString('latin1', at + delimiter.length, head),
      )
    )
      return text.subarray(head + 4, end);
  }
  return undefined;
}

/** Opens a file of this machine. Does not wait for the writer of a pipe. */
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
  // The path is a socket, or a device without a driver.
  if (code === 'ENXIO' || code === 'ENODEV') return new HttpError(400, 'Path is not a file');
  return new HttpError(400, `The file can not be read (${String(code)})`);
}

/** Formats the header Content-Disposition (RFC 6266). */
export function dispositionOf(name: string): string {
  const encoded = encodeURIComponent(name.toWellFormed());
  return encoded === name
    ? `attachment; filename="${name}"`
    : `attachment; filename*=utf-8''${encoded}`;
}
