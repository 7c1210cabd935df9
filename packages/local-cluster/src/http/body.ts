import type { IncomingMessage } from 'node:http';
import { tooLarge } from '../api/status-error.ts';

/**
 * Reads the body. @throws StatusError 413 when the body exceeds the limit; the rest then remains
 * unread
 */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes)
    throw tooLarge(`limit is ${maxBytes}`);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw tooLarge(`limit is ${maxBytes}`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
