import type { IncomingMessage } from 'node:http';
import { tooLarge } from '../api/status-error.ts';

/** The body. @throws StatusError 413 when it is longer than allowed; the rest is not read then */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(`limit is ${maxBytes}`);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw tooLarge(`limit is ${maxBytes}`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
