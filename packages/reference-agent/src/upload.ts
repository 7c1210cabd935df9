import { mkdir, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { dirname, isAbsolute } from 'node:path';
import { HttpError } from './http-error.ts';
import { readBody } from './read-body.ts';

/** Writes the field `file` of a form to a path of this machine, and creates the parent folders. */
export async function upload(request: IncomingMessage, path: string): Promise<object> {
  if (!isAbsolute(path)) throw new HttpError(400, 'Path must be absolute');
  const file = fileIn(await readBody(request), request.headers['content-type'] ?? '');
  if (file === undefined)
    throw new HttpError(422, [{ type: 'missing', loc: ['body', 'file'], msg: 'Field required' }]);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, file);
  return { success: true, file_size: file.length };
}

/** Returns the content of the part `file` of a form (RFC 7578, the subset that clients use). */
function fileIn(body: Buffer, contentType: string): Buffer | undefined {
  const [, quoted, plain] =
    /^multipart\/form-data;.*\bboundary=(?:"([^"]{1,200})"|([^\s;]{1,200}))/i.exec(contentType) ??
    [];
  const boundary = quoted ?? plain;
  if (boundary === undefined) return undefined;
  // The first boundary has no preceding line.
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
