import type { Route } from '../http/route.ts';

const text = (description: string) => ({ description, required: true, schema: { type: 'string' } });
const count = (description: string) => ({
  description,
  required: true,
  schema: { type: 'integer', minimum: 0 },
});
/** A header that is absent where no limit is set. */
const perhaps = (description: string) => ({ ...text(description), required: false });

/** The headers of answers that clients may rely on. */
export const responseHeaders = {
  'X-Request-Id': text(
    "Identifies the request for the administrator of the service: the client's own where it is a sane token.",
  ),
  'Retry-After': count('Seconds after which to try again.'),
  'RateLimit-Policy': perhaps(
    'How many requests the key may make in which time, as in draft-ietf-httpapi-ratelimit-headers.',
  ),
  RateLimit: perhaps('How many of these are left, and for how long.'),
  'WWW-Authenticate': text('Bearer.'),
  Deprecation: text('Since when this is deprecated, RFC 9745.'),
  Sunset: text('When it was announced to be removed, RFC 8594.'),
  Link: text('The successor of this.'),
  NextLink: perhaps('The next page, as rel="next", where there is one.'),
} as const;
type Header = Exclude<keyof typeof responseHeaders, 'NextLink'>;

/** References to the headers that an answer of this status has. */
export function headersOf(
  route: Route,
  status: number,
): Readonly<Record<string, { readonly $ref: string }>> {
  const names: readonly Header[] = [
    'X-Request-Id',
    ...((status === 429 || status === 503) && route.path !== '/ready'
      ? (['Retry-After'] as const)
      : []),
    ...(status === 401 ? (['WWW-Authenticate'] as const) : []),
    ...(route.access !== 'open' && status !== 401
      ? (['RateLimit-Policy', 'RateLimit'] as const)
      : []),
    ...(route.deprecated === true ? (['Deprecation', 'Sunset', 'Link'] as const) : []),
  ];
  const references = Object.fromEntries(
    names.map((name) => [name, { $ref: `#/components/headers/${name}` }]),
  );
  return route.hasNextLink === true && status === 200
    ? { ...references, Link: { $ref: '#/components/headers/NextLink' } }
    : references;
}
