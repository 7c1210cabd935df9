import { createHash } from 'node:crypto';
import type { Request, Response } from 'express';

/** Sends a whole body, whose length the response says. */
export function sendBytes(
  response: Response,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
): void {
  response.set({ ...headers, 'content-length': String(body.length) });
  response.end(body);
}

/** Entity tags of bodies, each of which is made once and kept by the one who sends it. */
const tags = new WeakMap<Buffer, string>();

/** A strong tag: the two forms of a file have different bytes, and so different tags. */
function tagOf(body: Buffer): string {
  const tag = tags.get(body) ?? `"${createHash('sha256').update(body).digest('base64url')}"`;
  tags.set(body, tag);
  return tag;
}

/**
 * Sends a body that is the same for all requests, with its entity tag. A client whose
 * `If-None-Match` has the tag gets 304, and keeps what it has.
 */
export function sendStatic(
  request: Request,
  response: Response,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
): void {
  response.set({ ...headers, etag: tagOf(body) });
  if (!request.fresh) {
    sendBytes(response, {}, body);
    return;
  }
  // These describe a body that is not there.
  response.removeHeader('content-type');
  response.removeHeader('content-encoding');
  response.status(304).end();
}

/** A file in the two forms that it may have. */
export interface Packable {
  readonly plain: () => Buffer;
  readonly packed?: () => Buffer;
}

export const immutable = 'public, max-age=31536000, immutable';

/** Sends a file, packed where the client accepts that. Pages of other origins can't use it. */
export function sendFile(
  request: Request,
  response: Response,
  headers: Readonly<Record<string, string>>,
  { plain, packed }: Packable,
): void {
  const takesPacked = packed !== undefined && request.acceptsEncodings('gzip') === 'gzip';
  sendStatic(
    request,
    response,
    {
      ...headers,
      'cross-origin-resource-policy': 'same-origin',
      ...(packed === undefined ? {} : { vary: 'Accept-Encoding' }),
      ...(takesPacked ? { 'content-encoding': 'gzip' } : {}),
    },
    takesPacked ? packed() : plain(),
  );
}
