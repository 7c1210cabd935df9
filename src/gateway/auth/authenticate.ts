import type { IncomingHttpHeaders } from 'node:http';
import type { Clock } from '../../kube/clock.ts';
import type { ApiKey } from '../../resources/api-key.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { Cache } from '../lookup/cache.ts';
import { equalHashes, hashKey, isWellFormedKey } from './key.ts';

/** Who makes a request. */
export interface Principal {
  readonly owner: string;
  readonly role: 'user' | 'admin';
  /** Name of the ApiKey resource. */
  readonly keyName: string;
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

const isUsable = ({ metadata, spec }: ApiKey, nowMs: number): boolean =>
  metadata.deletionTimestamp === undefined &&
  spec.disabled !== true &&
  // A time that can't be read counts as past.
  (spec.expiresAt === undefined || Date.parse(spec.expiresAt) > nowMs);

export class Authenticator {
  readonly #cache: Cache<ApiKey>;
  readonly #namespace: string;
  readonly #clock: Clock;

  constructor(options: { cache: Cache<ApiKey>; namespace: string; clock: Clock }) {
    this.#cache = options.cache;
    this.#namespace = options.namespace;
    this.#clock = options.clock;
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
    const found = this.#cache.store
      .byIndex('sha256', hash)
      .find(
        (candidate) =>
          candidate.metadata.namespace === this.#namespace &&
          equalHashes(candidate.spec.sha256, hash) &&
          isUsable(candidate, this.#clock.now()),
      );
    if (found === undefined) return undefined;
    const { owner, role, description } = found.spec;
    return { owner, role, keyName: found.metadata.name, keyDescription: description };
  }
}
