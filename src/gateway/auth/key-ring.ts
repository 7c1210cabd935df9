import { sessionReferenceOf } from '../../agent/keys.ts';
import type { Clock } from '@conversation-operator/base/clock';
import { isLive } from '@conversation-operator/kube/object';
import type { ApiKey, ApiKeySpec } from '../../resources/api-key.ts';
import type { Cache } from '../lookup/cache.ts';
import { Listeners } from '../lookup/object-feed.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { hashKey, isEqual, isWellFormedKey } from './key.ts';
import type { IncomingHttpHeaders } from 'node:http';

/** Maximum keys in a chain of a key and its issuers; a longer or circular chain is invalid. */
export const maxChainLength = 8;

/** A valid key, together with the keys that it depends on. */
export interface KeyChain {
  readonly role: ApiKeySpec['role'];
  /** Time at which the first key of the chain expires; Infinity if none does. */
  readonly expiresAtMs: number;
  /** UID of the key itself, then of the key that made it, and so on. */
  readonly uids: readonly string[];
  /** Whether a key of the chain belongs to a browser session, which reads no secrets. */
  readonly hasSession: boolean;
}

/** An unreadable time counts as past. */
const expiryOf = ({ spec }: ApiKey): number =>
  spec.expirationTime === undefined ? Infinity : Date.parse(spec.expirationTime) || 0;

/**
 * The chain of a key; undefined when a key of the chain does not exist under its UID, is disabled,
 * or has expired. `find` reads a cache: a key is refused while the cache does not show its issuer,
 * so a lagging cache never lets a key outlive its issuer.
 */
export function chainOf(
  key: ApiKey,
  find: (name: string) => ApiKey | undefined,
  nowMs: number,
): KeyChain | undefined {
  const uids: string[] = [];
  let role: ApiKeySpec['role'] = 'admin';
  let expiresAtMs = Infinity;
  let hasSession = false;
  for (let link: ApiKey | undefined = key; ;) {
    const { metadata, spec }: ApiKey = link;
    if (!isLive(link) || spec.disabled === true || uids.length === maxChainLength) return undefined;
    uids.push(metadata.uid);
    expiresAtMs = Math.min(expiresAtMs, expiryOf(link));
    if (expiresAtMs <= nowMs) return undefined;
    if (spec.role === 'user') role = 'user';
    if (spec.signIn === 'Session') hasSession = true;
    if (spec.issuedBy === undefined) return { role, expiresAtMs, uids, hasSession };
    link = find(spec.issuedBy.name);
    if (link?.metadata.uid !== spec.issuedBy.uid) return undefined;
  }
}

/** Throws `key-depth-exceeded` where the new key would make its chain too long. */
export function refuseTooDeep({ uids }: KeyChain): void {
  if (uids.length < maxChainLength) return;
  throw new ProblemError(
    'key-depth-exceeded',
    `At most ${maxChainLength} keys may follow from each other, and the key of this request is the last one. Use a key that was made earlier.`,
  );
}

/** Whether all keys that a key depends on exist, valid or not. */
function hasIssuers(key: ApiKey, find: (name: string) => ApiKey | undefined): boolean {
  let { issuedBy } = key.spec;
  for (let length = 0; issuedBy !== undefined && length < maxChainLength; length++) {
    const issuer: ApiKey | undefined = find(issuedBy.name);
    if (issuer?.metadata.uid !== issuedBy.uid || issuer.metadata.deletionTimestamp !== undefined)
      return false;
    ({ issuedBy } = issuer.spec);
  }
  return true;
}

/** Maximum delay until the expiry of a key is checked again: the wall clock may be set. */
const recheckMs = 10_000;

export interface ValidKey {
  readonly key: ApiKey;
  readonly chain: KeyChain;
}

export interface KeyRingOptions {
  readonly cache: Cache<ApiKey>;
  readonly namespace: string;
  readonly clock: Clock;
}

/** The API keys of one namespace, read from the cache only. */
export class KeyRing {
  readonly #options: KeyRingOptions;
  /** Callbacks for the changes of a key, by the UID of the key. */
  readonly #followers = new Listeners();
  /** Requests that wait for a key, by the reference of its session keys or by the key's hash. */
  readonly #awaited = new Listeners();
  #remove: (() => void) | undefined;

  constructor(options: KeyRingOptions) {
    this.#options = options;
  }

  open(): void {
    this.#remove ??= this.#options.cache.addHandler({
      added: ({ metadata, spec }) => {
        if (this.#awaited.size === 0) return;
        this.#awaited.call(sessionReferenceOf(metadata.uid));
        this.#awaited.call(spec.sha256);
      },
      updated: (key, { metadata: { generation } }) => {
        // The status, which only records the last use of the key, decides nothing.
        if (key.metadata.generation !== generation || !isLive(key))
          this.#followers.call(key.metadata.uid);
      },
      deleted: ({ metadata }) => this.#followers.call(metadata.uid),
    });
  }

  close(): void {
    this.#remove?.();
    this.#remove = undefined;
  }

  /** The valid key of this text, if its use in a sign-in is the given one. */
  byText(text: string, signIn: ApiKeySpec['signIn']): ValidKey | undefined {
    if (!isWellFormedKey(text)) return undefined;
    const hash = hashKey(text);
    return this.#valid(
      this.#options.cache.store.byIndex('sha256', hash),
      ({ spec }) => spec.signIn === signIn && isEqual(spec.sha256, hash),
    );
  }

  byName(name: string, uid: string): ValidKey | undefined {
    const key = this.#find(name);
    return this.#valid(key === undefined ? [] : [key], ({ metadata }) => metadata.uid === uid);
  }

  byReference(reference: string): ValidKey | undefined {
    return this.#valid(
      this.#options.cache.store.byIndex('sessionReference', reference),
      () => true,
    );
  }

  /** Whether a key that this one depends on is deleted, so that Kubernetes deletes this one too. */
  isOrphan(key: ApiKey): boolean {
    return !hasIssuers(key, this.#find);
  }

  /**
   * Calls `changed` when a key of the chain changes or is deleted, and when the chain expires.
   * Returns the function that stops this.
   */
  follow({ uids, expiresAtMs }: KeyChain, changed: () => void): () => void {
    const removers = uids.map((uid) => this.#followers.on(uid, changed));
    const delayMs = Math.min(expiresAtMs - this.#options.clock.now(), recheckMs);
    const timer =
      expiresAtMs === Infinity ? undefined : this.#options.clock.after(delayMs, changed);
    return () => {
      timer?.cancel();
      for (const remove of removers) remove();
    };
  }

  /**
   * Calls `ended` once the key of this name and UID is invalid, at once if it already is.
   * Returns the function that stops this.
   */
  untilEnd(name: string, uid: string, ended: () => void): () => void {
    let forget: () => void = () => undefined;
    const check = () => {
      forget();
      const valid = this.byName(name, uid);
      if (valid === undefined) ended();
      else forget = this.follow(valid.chain, check);
    };
    check();
    return () => forget();
  }

  /**
   * Waits at most `timeoutMs` until the cache has the key of a session key or of a hash, which
   * another process may have seen before.
   */
  async appears(
    by: 'sessionReference' | 'sha256',
    value: string,
    timeoutMs: number,
  ): Promise<void> {
    const { cache, clock } = this.#options;
    if (cache.store.byIndex(by, value).length === 0)
      await this.#awaited.next(value, clock, timeoutMs);
  }

  readonly #find = (name: string): ApiKey | undefined =>
    this.#options.cache.store.get(this.#options.namespace, name);

  #valid(candidates: readonly ApiKey[], accepts: (key: ApiKey) => boolean): ValidKey | undefined {
    for (const key of candidates) {
      if (key.metadata.namespace !== this.#options.namespace || !accepts(key)) continue;
      const chain = chainOf(key, this.#find, this.#options.clock.now());
      if (chain !== undefined) return { key, chain };
    }
    return undefined;
  }
}

/** The key of a request, and its owner. */
export interface Principal {
  readonly owner: string;
  readonly role: 'user' | 'admin';
  readonly keyName: string;
  readonly keyUid: string;
  readonly chain: KeyChain;
  readonly keyDescription: string | undefined;
}

/** The same problem for every kind of bad key, so that no response discloses which keys exist. */
const unauthorized = () =>
  new ProblemError('unauthorized', 'The API key is missing or not valid.', {
    headers: { 'www-authenticate': 'Bearer' },
  });

const bearer = /^Bearer +([^\s]+) *$/i;

/** The keys of a request, in order of precedence. */
function keysOf(headers: IncomingHttpHeaders): string[] {
  const [, token] = bearer.exec(headers.authorization ?? '') ?? [];
  const sessionKey = headers['x-session-api-key'];
  return [token, typeof sessionKey === 'string' ? sessionKey : undefined].filter(
    (key) => key !== undefined,
  );
}

/** The principal of the first valid key. Throws `unauthorized`. Reads the synced cache only. */
export function authenticate(ring: KeyRing, headers: IncomingHttpHeaders): Principal {
  for (const key of keysOf(headers)) {
    const principal = authenticateKey(ring, key);
    if (principal !== undefined) return principal;
  }
  throw unauthorized();
}

/** The principal of a key; undefined if the key is not valid. */
export function authenticateKey(ring: KeyRing, key: string): Principal | undefined {
  // The key of a sign-in link only opens the page /login.
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
