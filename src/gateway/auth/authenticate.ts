import type { IncomingHttpHeaders } from 'node:http';
import { ProblemError } from '../errors/problem-error.ts';
import type { KeyChain } from './key-chain.ts';
import type { KeyRing } from './key-ring.ts';
import { equalHashes, hashKey, isWellFormedKey } from './key.ts';

/** Who makes a request. */
export interface Principal {
  readonly owner: string;
  readonly role: 'user' | 'admin';
  /** Name of the ApiKey resource. */
  readonly keyName: string;
  readonly keyUid: string;
  readonly chain: KeyChain;
  readonly keyDescription: string | undefined;
}

/** One answer for every kind of bad key, so that it tells nothing about which keys exist. */
const unauthorized = () =>
  new ProblemError('unauthorized', 'The API key is missing or not valid.', { headers: { 'www-authenticate': 'Bearer' } });

const bearer = /^Bearer +([^\s]+) *$/i;

/** The keys that a request shows, in the order in which they count. */
function keysOf(headers: IncomingHttpHeaders): string[] {
  const [, token] = bearer.exec(headers.authorization ?? '') ?? [];
  const sessionKey = headers['x-session-api-key'];
  return [token, typeof sessionKey === 'string' ? sessionKey : undefined].filter((key) => key !== undefined);
}

export class Authenticator {
  readonly #ring: KeyRing;

  constructor({ ring }: { readonly ring: KeyRing }) {
    this.#ring = ring;
  }

  /** Throws `unauthorized`. Answers from the cache alone: it must be synced. */
  authenticate(headers: IncomingHttpHeaders): Principal {
    for (const key of keysOf(headers)) {
      const principal = this.#principalOf(key);
      if (principal !== undefined) return principal;
    }
    throw unauthorized();
  }

  #principalOf(key: string): Principal | undefined {
    if (!isWellFormedKey(key)) return undefined;
    const hash = hashKey(key);
    const found = this.#ring.byHash(hash, ({ spec }) => equalHashes(spec.sha256, hash));
    if (found === undefined) return undefined;
    const { metadata, spec } = found.key;
    const { chain } = found;
    return {
      owner: spec.owner,
      role: chain.role,
      keyName: metadata.name,
      keyUid: metadata.uid,
      chain,
      keyDescription: spec.description,
    };
  }
}
