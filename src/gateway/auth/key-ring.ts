import { sessionReferenceOf } from '../../agent/keys.ts';
import type { Clock } from '@conversation-operator/base/clock';
import { isLive } from '@conversation-operator/kube/object';
import {
  apiKeyScopes,
  type ApiKey,
  type ApiKeyScope,
  type ApiKeySpec,
} from '../../resources/api-key.ts';
import type { Cache } from '../lookup/cache.ts';
import { Listeners } from '../lookup/object-feed.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { AuditHolder } from '../../observability/audit.ts';
import { hashKey, isEqual, isWellFormedKey } from './key.ts';
import type { IncomingHttpHeaders } from 'node:http';

/** Maximum keys in a chain of a key and its issuers; a longer or circular chain is invalid. */
export const maxChainLength = 8;

/** Properties of a valid key together with its chain of issuers (`spec.issuedBy`). */
export interface KeyChain {
  /** `admin` if all keys have this role and the scope of this name. */
  readonly role: ApiKeySpec['role'];
  /** Scopes that all keys have. */
  readonly scopes: ReadonlySet<ApiKeyScope>;
  /** Templates that all keys may start; undefined: all templates. */
  readonly templates: readonly string[] | undefined;
  /** Time at which the first key of the chain expires; Infinity if no key expires. */
  readonly expiresAtMs: number;
  /** Time until which the chain is valid: also its confirmation by an identity provider ends. */
  readonly validUntilMs: number;
  /** UID of the key itself, then of its issuer, then of the issuer's issuer, and so on. */
  readonly uids: readonly string[];
  /** Whether a key of the chain belongs to a browser session, which may not read secrets. */
  readonly hasSession: boolean;
  /** The key itself, and whom it follows from, as the audit log names them. */
  readonly holder: Omit<AuditHolder, 'owner'>;
}

const everyScope: ReadonlySet<ApiKeyScope> = new Set(apiKeyScopes);

/** Expiration time of a key; Infinity without one. An unreadable time counts as past. */
const expiryOf = ({ spec }: ApiKey): number =>
  spec.expirationTime === undefined ? Infinity : Date.parse(spec.expirationTime) || 0;

/** Time from which a key is valid. An unreadable time counts as future. */
const startOf = ({ spec }: ApiKey): number =>
  spec.notBefore === undefined ? -Infinity : Date.parse(spec.notBefore) || Infinity;

/** Maximum difference between the clocks of the gateway and of the API server. */
const maxClockSkewMs = 60_000;

/** Time until which the identity provider has confirmed the person; Infinity without one. */
function confirmedUntil({ metadata, spec: { person }, status }: ApiKey, nowMs: number): number {
  if (person === undefined) return Infinity;
  const confirmed = Date.parse(status?.confirmedTime ?? metadata.creationTimestamp) || 0;
  // Clocks may differ; a time far in the future is no confirmation.
  return confirmed > nowMs + maxClockSkewMs ? 0 : confirmed + person.recheckSeconds * 1000;
}

/** Keys of a chain whose person the identity provider must have confirmed lately. */
export type Confirmed = 'none' | 'own' | 'all';

/**
 * The chain of a key; undefined if a key of the chain is missing, has another UID, is disabled,
 * is not valid yet, has expired, or lacks the confirmation that `confirmed` demands. `find` reads a
 * cache: while the cache does not show an issuer, the key is refused, so a lagging cache never lets
 * a key outlive its issuer.
 */
export function chainOf(
  key: ApiKey,
  find: (name: string) => ApiKey | undefined,
  { nowMs, confirmed = 'own' }: { readonly nowMs: number; readonly confirmed?: Confirmed },
): KeyChain | undefined {
  const uids: string[] = [];
  let role: ApiKeySpec['role'] = 'admin';
  let expiresAtMs = Infinity;
  let validUntilMs = Infinity;
  let hasSession = false;
  let scopes = everyScope;
  let templates: readonly string[] | undefined;
  let holder: KeyChain['holder'] = { key: key.metadata.name };
  for (let link: ApiKey | undefined = key; ;) {
    const { metadata, spec }: ApiKey = link;
    if (!isLive(link) || spec.disabled === true || uids.length === maxChainLength) return undefined;
    if (confirmed === 'all' || (confirmed === 'own' && uids.length === 0))
      validUntilMs = Math.min(validUntilMs, confirmedUntil(link, nowMs));
    uids.push(metadata.uid);
    expiresAtMs = Math.min(expiresAtMs, expiryOf(link));
    validUntilMs = Math.min(validUntilMs, expiresAtMs);
    if (validUntilMs <= nowMs || startOf(link) > nowMs) return undefined;
    if (spec.role === 'user') role = 'user';
    if (spec.scopes !== undefined) scopes = new Set(spec.scopes.filter((one) => scopes.has(one)));
    if (spec.signIn === 'Session') {
      hasSession = true;
      holder = { ...holder, session: metadata.name };
    }
    if (spec.person !== undefined) {
      const { issuer, subject, name } = spec.person;
      holder = { ...holder, person: { issuer, subject, name } };
    }
    if (spec.serviceAccount !== undefined)
      holder = { ...holder, serviceAccount: spec.serviceAccount };
    if (spec.templates !== undefined)
      templates = spec.templates.filter((one) => templates?.includes(one) !== false);
    if (spec.issuedBy === undefined)
      return {
        role: scopes.has('admin') ? role : 'user',
        scopes,
        templates,
        expiresAtMs,
        validUntilMs,
        uids,
        hasSession,
        holder,
      };
    link = find(spec.issuedBy.name);
    if (link?.metadata.uid !== spec.issuedBy.uid) return undefined;
  }
}

/** Throws 403, which names the scope, if a key of the chain lacks it. */
export function requireScope({ scopes, hasSession }: KeyChain, scope: ApiKeyScope): void {
  if (scopes.has(scope)) return;
  throw new ProblemError(
    'insufficient-scope',
    `${hasSession ? 'Your session or its key' : 'The key'} does not have the scope ${scope}, which this operation needs.`,
  );
}

/** Throws 403 if a key of the chain may not start this template. */
export function requireTemplate({ templates }: KeyChain, template: string): void {
  if (templates?.includes(template) === false)
    throw new ProblemError(
      'template-not-allowed',
      `The key starts no sandboxes of the spec ${template}. It may start ${templates.join(', ') || 'none'}.`,
    );
}

/** Throws `key-depth-exceeded` if the new key would make its chain too long. */
export function refuseTooDeep({ uids }: KeyChain): void {
  if (uids.length < maxChainLength) return;
  throw new ProblemError(
    'key-depth-exceeded',
    `At most ${maxChainLength} keys may follow from each other, and the key of this request is the last one. Use a key that was made earlier.`,
  );
}

/** Whether all issuers of a key exist. The issuers need not be valid. */
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

/** Maximum delay until the expiry of a key is checked again, because the wall clock may change. */
const recheckMs = 10_000;

export interface ValidKey {
  readonly key: ApiKey;
  readonly chain: KeyChain;
}

export interface KeyRingOptions {
  readonly cache: Cache<ApiKey>;
  readonly namespace: string;
  readonly clock: Clock;
  /** Whether the keys that a person has made in a session need a confirmed session; default no. */
  readonly requireActivePerson?: boolean;
}

/** The API keys of one namespace, read from the cache only. */
export class KeyRing {
  readonly #options: KeyRingOptions;
  /** Callbacks for the changes of a key, by the UID of the key. */
  readonly #followers = new Listeners();
  /** Callbacks for a key that appears in the cache, by its session reference and by its hash. */
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
        // A change of the status, which only records the last use of the key, is ignored.
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

  /** The valid key with this text and this value of `spec.signIn`. */
  byText(text: string, signIn: ApiKeySpec['signIn']): ValidKey | undefined {
    if (!isWellFormedKey(text)) return undefined;
    const hash = hashKey(text);
    return this.#valid(
      this.#options.cache.store.byIndex('sha256', hash),
      ({ spec }) => spec.signIn === signIn && isEqual(spec.sha256, hash),
    );
  }

  byName(name: string, uid: string, confirmed?: Confirmed): ValidKey | undefined {
    const key = this.#find(name);
    return this.#valid(
      key === undefined ? [] : [key],
      ({ metadata }) => metadata.uid === uid,
      confirmed,
    );
  }

  /** The valid key of this name, if its use in a sign-in is the given one. */
  named(name: string, signIn?: ApiKeySpec['signIn']): ValidKey | undefined {
    const key = this.#find(name);
    return this.#valid(key === undefined ? [] : [key], ({ spec }) => spec.signIn === signIn);
  }

  /** The key with this name and UID, valid or not. */
  keyNamed(name: string, uid: string): ApiKey | undefined {
    const key = this.#find(name);
    return key?.metadata.uid === uid ? key : undefined;
  }

  byReference(reference: string): ValidKey | undefined {
    return this.#valid(
      this.#options.cache.store.byIndex('sessionReference', reference),
      () => true,
    );
  }

  /** Whether an issuer of the key is deleted, so that Kubernetes deletes the key too. */
  isOrphan(key: ApiKey): boolean {
    return !hasIssuers(key, this.#find);
  }

  /**
   * Calls `changed` when a key of the chain changes or is deleted; for a chain that expires, also
   * after 10 s or at the expiry, whichever is earlier. Returns a function that cancels these calls.
   */
  follow({ uids, validUntilMs }: KeyChain, changed: () => void): () => void {
    const removers = uids.map((uid) => this.#followers.on(uid, changed));
    const delayMs = Math.min(validUntilMs - this.#options.clock.now(), recheckMs);
    const timer =
      validUntilMs === Infinity ? undefined : this.#options.clock.after(delayMs, changed);
    return () => {
      timer?.cancel();
      for (const remove of removers) remove();
    };
  }

  /**
   * Calls `ended` as soon as the key with this name and UID is invalid; at once if it is invalid
   * already. Returns a function that cancels the call.
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

  /** Waits at most `timeoutMs` until the cache shows a key that another process has created. */
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

  #valid(
    candidates: readonly ApiKey[],
    accepts: (key: ApiKey) => boolean,
    confirmed: Confirmed = this.#options.requireActivePerson === true ? 'all' : 'own',
  ): ValidKey | undefined {
    const nowMs = this.#options.clock.now();
    for (const key of candidates) {
      if (key.metadata.namespace !== this.#options.namespace || !accepts(key)) continue;
      const chain = chainOf(key, this.#find, { nowMs, confirmed });
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
  /** Name of the person; undefined for a key without one. */
  readonly personName: string | undefined;
  /** Groups of the person, as ISSUER:VALUE; empty for a key without a person. */
  readonly groups: readonly string[];
}

/** The holder of the key of a request, for the audit log. */
export const holderOf = ({ owner, chain }: Pick<Principal, 'owner' | 'chain'>): AuditHolder => ({
  owner,
  ...chain.holder,
});

/** Every kind of invalid key gets this problem, so that no response discloses which keys exist. */
const unauthorized = () =>
  new ProblemError('unauthorized', 'The API key is missing or not valid.', {
    headers: { 'www-authenticate': 'Bearer' },
  });

const bearer = /^Bearer +([^\s]+) *$/i;

/** The keys in the headers of a request, in order of precedence. */
export function keysOf(headers: IncomingHttpHeaders): string[] {
  const [, token] = bearer.exec(headers.authorization ?? '') ?? [];
  const sessionKey = headers['x-session-api-key'];
  return [token, typeof sessionKey === 'string' ? sessionKey : undefined].filter(
    (key) => key !== undefined,
  );
}

/** The principal of the first valid key, from the cache. Throws `unauthorized` without one. */
export function authenticate(ring: KeyRing, headers: IncomingHttpHeaders): Principal {
  for (const key of keysOf(headers)) {
    const principal = authenticateKey(ring, key);
    if (principal !== undefined) return principal;
  }
  throw unauthorized();
}

export function authenticateKey(ring: KeyRing, key: string): Principal | undefined {
  // A key with `signIn` authenticates no requests. The key of a sign-in link only opens /login.
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
    personName: spec.person?.name,
    groups: spec.person?.groups ?? [],
  };
}
