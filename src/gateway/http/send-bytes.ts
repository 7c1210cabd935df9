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
  sendBytes(
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
