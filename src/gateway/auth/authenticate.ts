import type { IncomingHttpHeaders } from 'node:http';
import { ProblemError } from '../errors/problem-error.ts';
import type { KeyChain, KeyRing, ValidKey } from './key-ring.ts';

/** The key that makes a request, and its owner. */
export interface Principal {
  readonly owner: string;
  readonly role: 'user' | 'admin';
  /** Name of the ApiKey resource. */
  readonly keyName: string;
  readonly keyUid: string;
  readonly chain: KeyChain;
  readonly keyDescription: string | undefined;
}

/**
 * The same problem for every kind of bad key, so that it discloses nothing about which keys exist.
 */
const unauthorized = () =>
  new ProblemError('unauthorized', 'The API key is missing or not valid.', {
    headers: { 'www-authenticate': 'Bearer' },
  });

const bearer = /^Bearer +([^\s]+) *$/i;

/** The keys that a request shows, in the order in which they count. */
function keysOf(headers: IncomingHttpHeaders): string[] {
  const [, token] = bearer.exec(headers.authorization ?? '') ?? [];
  const sessionKey = headers['x-session-api-key'];
  return [token, typeof sessionKey === 'string' ? sessionKey : undefined].filter(
    (key) => key !== undefined,
  );
}

/**
 * The principal of the first valid key. Throws `unauthorized`. Reads the cache alone, which must be
 * synced.
 */
export function authenticate(ring: KeyRing, headers: IncomingHttpHeaders): Principal {
  for (const key of keysOf(headers)) {
    const principal = authenticateKey(ring, key);
    if (principal !== undefined) return principal;
  }
  throw unauthorized();
}

/** The principal of a key; undefined where the key is not valid. */
export function authenticateKey(ring: KeyRing, key: string): Principal | undefined {
  // The key of a link opens the page /login alone.
  const found = ring.byText(key, undefined);
  return found && principalOfKey(found);
}

export function principalOfKey({ key: { metadata, spec }, chain }: ValidKey): Principal {
  return {
    owner: spec.owner,
    role: chain.role,
    keyName: metadata.name,
    keyUid: metadata.uid,
    chain,
    keyDescription: spec.description,
  };
}
