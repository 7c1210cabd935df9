import type { IncomingMessage } from 'node:http';
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { RandomBytes } from '../auth/key.ts';
import { maxPathLength } from '../pages/page.ts';

/** The part of a request that determines the name of its cookie. */
export type CookieRequest = Pick<IncomingMessage, 'headers'>;

interface CookieKind {
  readonly name: string;
  readonly isSecure: boolean;
}

const loopbackHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::(\d{1,5}))?$/i;

/** Whether the Host header names a loopback host, which is the machine of the browser. */
export const isLoopback = ({ headers }: CookieRequest): boolean =>
  loopbackHost.test(headers.host ?? '');

/**
 * Name and security of the session cookie. Browsers send a cookie to every port of a host, so the
 * name contains the port if other services may run on the host. The prefix `__Host-` makes a
 * browser reject a cookie that another host, or a page without TLS, has set.
 */
function kindOf(request: CookieRequest, publicUrl: string, purpose: Purpose): CookieKind {
  const { host = '' } = request.headers;
  const ending = purpose === 'session' ? '' : `-${purpose}`;
  if (publicUrl.startsWith('https:') && !isLoopback(request))
    return { name: `__Host-conversation-operator${ending}`, isSecure: true };
  const port = /:(\d{1,5})$/.exec(host)?.[1] ?? '80';
  return { name: `conversation-operator-${port}${ending}`, isSecure: false };
}

/** The value of the cookie; undefined if the request has none, or more than one. */
export function readCookie(
  request: CookieRequest,
  publicUrl: string,
  purpose: Purpose = 'session',
): string | undefined {
  const { cookie } = request.headers;
  if (cookie === undefined) return undefined;
  const start = `${kindOf(request, publicUrl, purpose).name}=`;
  const values = cookie
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part.startsWith(start));
  const [value] = values;
  return values.length === 1 ? value?.slice(start.length) : undefined;
}

/** The header Set-Cookie for a cookie that ends after `maxAgeSeconds`; 0 removes the cookie. */
export function setCookie(
  request: CookieRequest,
  publicUrl: string,
  {
    value,
    maxAgeSeconds,
    purpose = 'session',
  }: { readonly value: string; readonly maxAgeSeconds: number; readonly purpose?: Purpose },
): string {
  const { name, isSecure } = kindOf(request, publicUrl, purpose);
  return [
    `${name}=${value}`,
    'Path=/',
    `Max-Age=${maxAgeSeconds}`,
    'HttpOnly',
    'SameSite=Lax',
    ...(isSecure ? ['Secure'] : []),
  ].join('; ');
}

/** Only the cookie of a session has this token, encrypted. */
const accessTokenSchema = z.object({
  text: z.string().min(1),
  /** Milliseconds since 1970; absent where the issuer has not said it. */
  expiresAtMs: z.number().optional(),
});
export type AccessToken = z.output<typeof accessTokenSchema>;

/** Maximum length of an access token as JSON: with it a session still fits `maxSealedLength`. */
export const maxTokenLength = 2_300;

export const sessionSchema = z.object({
  /** Name and UID of the ApiKey that the session uses. */
  name: z.string().min(1),
  uid: z.string().min(1),
  /** Times of the creation and of the expiry, in milliseconds since 1970. */
  issuedAtMs: z.int().positive(),
  expiresAtMs: z.int().positive(),
  /** With which the issuer can be asked about the person; absent where the browser asks. */
  token: accessTokenSchema.optional(),
});
export type Session = z.output<typeof sessionSchema>;

const cipher = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
/** Maximum length of a cookie value that is decrypted; no cookie of this gateway is longer. */
const maxSealedLength = 3584;

/** Use of a cookie. A value that is encrypted for one purpose can not be read for another. */
type Purpose = 'session' | 'sign-in';

/** Session cookies of earlier versions have no additional data. */
const additionalDataOf = (purpose: Purpose): Buffer =>
  Buffer.from(purpose === 'session' ? '' : purpose);

/**
 * The JSON of a value as a cookie value, encrypted and authenticated with the first key. Only a
 * gateway with the key can create or read it.
 */
export function seal(
  purpose: Purpose,
  value: unknown,
  [key]: readonly Buffer[],
  random: RandomBytes = randomBytes,
): string {
  if (key === undefined) throw new Error('a key is needed to seal a cookie');
  const nonce = random(nonceBytes);
  const encryption = createCipheriv(cipher, key, nonce).setAAD(additionalDataOf(purpose));
  const text = Buffer.concat([encryption.update(JSON.stringify(value)), encryption.final()]);
  return Buffer.concat([nonce, encryption.getAuthTag(), text]).toString('base64url');
}

/**
 * The value in a cookie of this purpose; undefined if no key decrypts the cookie, or the value
 * does not match the schema. During a rotation of the master key, the earlier keys decrypt the
 * cookies that they have encrypted.
 */
export function unseal<T>(
  purpose: Purpose,
  sealed: string,
  keys: readonly Buffer[],
  schema: z.ZodType<T>,
): T | undefined {
  if (sealed.length > maxSealedLength) return undefined;
  const bytes = Buffer.from(sealed, 'base64url');
  if (bytes.length <= nonceBytes + tagBytes) return undefined;
  for (const key of keys) {
    const text = decrypt(bytes, key, additionalDataOf(purpose));
    if (text !== undefined) return schema.safeParse(JSON.parse(text)).data;
  }
  return undefined;
}

function decrypt(bytes: Buffer, key: Buffer, additionalData: Buffer): string | undefined {
  const decryption = createDecipheriv(cipher, key, bytes.subarray(0, nonceBytes), {
    authTagLength: tagBytes,
  });
  decryption.setAAD(additionalData);
  decryption.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes));
  try {
    return Buffer.concat([
      decryption.update(bytes.subarray(nonceBytes + tagBytes)),
      decryption.final(),
    ]).toString('utf8');
  } catch {
    // The text was changed, or comes from another installation.
    return undefined;
  }
}

type OriginRequest = Pick<IncomingMessage, 'headers' | 'method'>;

const hostOf = (url: string): string | undefined =>
  URL.canParse(url) ? new URL(url).host : undefined;

/** Whether a page of another origin has sent the request, according to Sec-Fetch-Site. */
export function isFromElsewhere({ headers }: Pick<OriginRequest, 'headers'>): boolean {
  const site = headers['sec-fetch-site'];
  return site !== undefined && site !== 'same-origin' && site !== 'none';
}

/**
 * Whether a page of the service has sent this write. The header Origin must name the host of the
 * request or, if a proxy has replaced that host, the host of the public URL. Browsers omit
 * Sec-Fetch-Site only for plain HTTP to another machine; otherwise it must be same-origin.
 */
export function isFromOwnPage(request: OriginRequest, publicUrl: string): boolean {
  const { origin, host, 'sec-fetch-site': site } = request.headers;
  if (origin === undefined) return false;
  const from = hostOf(origin);
  if (from === undefined || (from !== host?.toLowerCase() && from !== hostOf(publicUrl)))
    return false;
  const isPlain = !publicUrl.startsWith('https:') && !isLoopback(request);
  return site === 'same-origin' || (site === undefined && isPlain);
}

/**
 * Converts a path of the service to a relative reference for a page at `/login`. Any other text
 * becomes the home page, so that no link leads to another site.
 */
export function ownPath(wanted: string | null | undefined): string {
  const home = './';
  if (
    wanted === null ||
    wanted === undefined ||
    wanted.length > maxPathLength ||
    !/^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(wanted)
  )
    return home;
  const base = 'http://service.invalid';
  if (!URL.canParse(wanted, base)) return home;
  const { origin, pathname, search, hash } = new URL(wanted, base);
  const path = `.${pathname}${search}${hash}`;
  // Percent-encoding may have made it longer.
  const isOwn = origin === base && !pathname.startsWith('//') && path.length <= maxPathLength;
  return isOwn ? path : home;
}
