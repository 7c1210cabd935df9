import { request, type Dispatcher } from 'undici';

export interface HttpCall {
  readonly dispatcher: Dispatcher;
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string | undefined;
  readonly signal: AbortSignal;
  /** Maximum size of the body of a response with this status, in bytes. */
  readonly maxBytes: (status: number) => number;
}

export interface HttpAnswer {
  readonly status: number;
  /** The value of a header, or the first of several values. */
  readonly header: (name: string) => string | undefined;
  /** Undefined: the body is larger than permitted, or came in very small chunks. */
  readonly body: Buffer | undefined;
}

/** Each chunk costs some KiB: those beyond the first average `minChunkBytes` at least. */
const maxSmallChunks = 1000;
const minChunkBytes = 256;

/**
 * Sends a request to a server that is not trusted, and returns its response, whatever the status;
 * no redirect is followed. Rejects with an error of undici, or the reason of the signal.
 */
export async function sendHttp(call: HttpCall): Promise<HttpAnswer> {
  const { dispatcher, method, url, headers, body: sent = null, signal, maxBytes } = call;
  const response = await request(url, { dispatcher, method, headers, body: sent, signal });
  const { statusCode: status, headers: received } = response;
  const body = await readBounded(response.body, maxBytes(status));
  const header = (name: string): string | undefined => {
    const value = received[name];
    return Array.isArray(value) ? value[0] : value;
  };
  return { status, header, body };
}

/** Leaving the loop early destroys the body and the connection. */
async function readBounded(
  body: AsyncIterable<Buffer>,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    chunks.push(chunk);
    if (bytes > maxBytes || chunks.length > maxSmallChunks + bytes / minChunkBytes)
      return undefined;
  }
  return chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, bytes);
}
