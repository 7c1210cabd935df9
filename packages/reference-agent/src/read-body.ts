import type { IncomingMessage } from 'node:http';
import { HttpError } from './http-error.ts';

const maxBodyBytes = 8 * 1024 * 1024;

/** Reads a whole body; empty when there is none. */
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
