import type { IncomingMessage } from 'node:http';
import type { Response } from 'express';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import { compact } from '@conversation-operator/base/compact';
import { isDeepStrictEqual } from 'node:util';
import type { Identity } from './identity.ts';
import { isConflict, isNotFound, unlessChanged } from '@conversation-operator/kube/errors';
import { sessionReferenceOf, type SandboxKeys } from '../../agent/keys.ts';
import { apiKeys, type ApiKey, type ApiKeySpec } from '../../resources/api-key.ts';
import {
  principalOfKey,
  type Principal,
  refuseTooDeep,
  type KeyRing,
  type ValidKey,
} from '../auth/key-ring.ts';
import type { Audit, AuditHolder, AuditLine } from '../../observability/audit.ts';
import { issueKey, hashKey, isWellFormedKey, type RandomBytes } from '../auth/key.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { originOf } from '../http/route.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import {
  isFromElsewhere,
  isFromOwnPage,
  readCookie,
  setCookie,
  type AccessToken,
  type CookieRequest,
  seal,
  unseal,
  type Session,
  sessionSchema,
} from './session-cookie.ts';

export const linkMinutes = 10;

interface LoginLinkOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly owner: string;
  readonly role: NonNullable<ApiKeySpec['role']>;
  readonly clock: Pick<Clock, 'now'>;
  readonly url: string;
  /** The API key on which the link and its session depend. */
  readonly issuer?: ApiKey | undefined;
}

/**
 * Creates a link that signs in once, within 10 minutes. The ApiKey of the link opens nothing else.
 * Only the replica that deletes this ApiKey creates a session.
 */
export async function createLoginLink({
  url,
  clock,
  issuer,
  ...options
}: LoginLinkOptions): Promise<string> {
  const { key } = await issueKey({
    ...options,
    issuedBy: issuer && { name: issuer.metadata.name, uid: issuer.metadata.uid },
    description: 'A link to sign in.',
    signIn: 'Link',
    expiresAt: new Date(clock.now() + linkMinutes * 60_000).toISOString(),
  });
  return `${url.replace(/\/+$/, '')}/login?token=${key}`;
}

type SessionSpec = Pick<
  ApiKeySpec,
  'owner' | 'role' | 'scopes' | 'templates' | 'person' | 'issuedBy'
>;

/** The part of a session that its identity provider decides. */
const identityIn = ({ spec: { owner, role, scopes, templates, person } }: ApiKey) =>
  compact({ owner, role, scopes, templates, person });

/** Compares JSON values; the API server sorts the fields of an object. */
const isSame = (one: Partial<Identity>, other: Identity): boolean => {
  // The name, which a person may change, gives no right.
  const [left, right] = [one, other].map((identity): unknown =>
    JSON.parse(JSON.stringify({ ...identity, person: { ...identity.person, name: '' } })),
  );
  return isDeepStrictEqual(left, right);
};

const dayMs = 24 * 60 * 60 * 1000;
/** Maximum lifetime of a session, after which the person has to sign in again. */
const sessionMs = 7 * dayMs;
/** Age up to which the cache may lack the ApiKey of a session, so that requests wait for it. */
const youngMs = 30_000;
/** Maximum wait until the cache shows the ApiKey of a new link or session. */
const appearMs = 1_000;
/** Maximum sessions of one owner; a further session ends the oldest one. */
const maxSessions = 50;

const hasExpired = ({ spec }: ApiKey, clock: Pick<Clock, 'now'>): boolean =>
  Date.parse(spec.expirationTime ?? '') <= clock.now();

/** Maximum expired keys that one request deletes. */
const maxSwept = 20;

/** Expired keys that sign-ins of any owner have left, which the next sign-in deletes. */
export const expiredSignIns = (
  lookup: Pick<ResourceLookup, 'everyApiKey'>,
  clock: Pick<Clock, 'now'>,
): readonly ApiKey[] =>
  lookup
    .everyApiKey()
    .filter((key) => key.spec.signIn !== undefined && hasExpired(key, clock))
    .slice(0, maxSwept);

export interface SessionsOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  readonly keys: Pick<SandboxKeys, 'sessionSealKeys'>;
  readonly ring: KeyRing;
  readonly lookup: Pick<ResourceLookup, 'apiKeysOf' | 'everyApiKey'>;
  readonly feeds: { readonly apiKeys: Pick<ObjectFeed<ApiKey>, 'settled'> };
  /** URL of the gateway for clients. */
  readonly publicUrl: () => string;
  readonly random: RandomBytes;
  /** Maximum lifetime of a key that is created over REST; by default without limit. */
  readonly maxKeyLifetimeMs?: number;
  readonly audit: Audit;
}

export type SessionEnd = Pick<AuditLine<'SessionEnded'>, 'reason' | 'detail'>;

/** How a person has signed in, as the audit log says it. */
type SignInWay = Pick<AuditLine<'SignIn'>, 'way' | 'credential'>;

/** The holder of a session, for the audit log. */
const sessionHolder = ({
  metadata: { name },
  spec: { owner, person },
}: Pick<ApiKey, 'metadata' | 'spec'>): AuditHolder => ({
  owner,
  key: name,
  session: name,
  ...(person && { person: { issuer: person.issuer, subject: person.subject, name: person.name } }),
});

/**
 * Sessions of people in browsers. A session is an encrypted cookie that names an ApiKey, which no
 * other session uses. Every replica can read the cookie, no replica stores it, and the session ends
 * with the ApiKey.
 */
export class Sessions {
  readonly #options: SessionsOptions;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /**
   * The principal of a request's session; undefined if there is no session, or if a page of another
   * origin sent the request. Throws `cross-origin-request` for a write that no page of the service
   * has sent.
   */
  principalOf(request: IncomingMessage): Principal | undefined {
    if (isFromElsewhere(request)) return undefined;
    const principal = this.holderOf(request);
    if (principal === undefined) return undefined;
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    if (!isRead && !isFromOwnPage(request, this.#options.publicUrl()))
      throw new ProblemError(
        'cross-origin-request',
        'A write with a session has to come from a page of this service: the headers Origin and Sec-Fetch-Site have to say so.',
      );
    return principal;
  }

  /** The principal of the session cookie. The origin of the request is not checked. */
  holderOf(request: CookieRequest): Principal | undefined {
    const valid = this.#holderOf(request);
    return valid && principalOfKey(valid);
  }

  #holderOf(request: CookieRequest): ValidKey | undefined {
    const session = this.#sessionOf(request);
    const valid = session && this.#options.ring.byName(session.name, session.uid);
    return valid?.key.spec.signIn === 'Session' ? valid : undefined;
  }

  /** Waits until the cache shows the ApiKey of a session that another replica has just created. */
  async seen(request: CookieRequest): Promise<void> {
    const { ring, clock } = this.#options;
    const session = this.#sessionOf(request);
    if (session !== undefined && clock.now() - session.issuedAtMs < youngMs)
      await ring.appears('sessionReference', sessionReferenceOf(session.uid), appearMs);
  }

  /**
   * The valid ApiKey of a link; undefined if the link is wrong, used, or expired. Waits at most
   * `appearMs` until the cache shows a new link.
   */
  async linkOf(token: string): Promise<ValidKey | undefined> {
    const { ring } = this.#options;
    if (isWellFormedKey(token)) await ring.appears('sha256', hashKey(token), appearMs);
    return ring.byText(token, 'Link');
  }

  /**
   * Signs in with a link. Returns the owner; undefined if the link is wrong, used, or expired.
   * Among concurrent requests, only the one that deletes the link's ApiKey gets a session.
   */
  async redeem(token: string, response: Response): Promise<string | undefined> {
    const link = await this.linkOf(token);
    if (link === undefined) return undefined;
    const { metadata, spec } = link.key;
    try {
      await this.#options.client.delete(apiKeys, metadata.namespace, metadata.name, {
        uid: metadata.uid,
      });
    } catch (error) {
      if (isNotFound(error) || isConflict(error)) return undefined;
      throw error;
    }
    await this.#open(spec, response, { way: 'link', credential: metadata.name });
    return spec.owner;
  }

  /**
   * Signs in with an API key: the session ends with that key. Throws `key-depth-exceeded` if the
   * chain of the session's ApiKey would be too long.
   */
  async openWithKey(
    { owner, role, keyName: name, keyUid: uid, chain }: Principal,
    response: Response,
  ): Promise<void> {
    refuseTooDeep(chain);
    const session = { owner, role, issuedBy: { name, uid } };
    await this.#open(session, response, { way: 'key', credential: name });
  }

  /**
   * Signs in a person whom an identity provider has confirmed. If the request has a session of the
   * same person with the same rights, that session continues. Otherwise another one replaces it.
   */
  async openForPerson(identity: Identity, response: Response, token?: AccessToken): Promise<void> {
    const { req: request } = response;
    const known = this.personSessionOf(request);
    if (known === undefined || !(await this.confirm(known, identity)))
      return this.#open(identity, response, { way: 'provider' }, token);
    const session = this.#sessionOf(request);
    if (token !== undefined && session !== undefined)
      this.#set(known, { expiresAtMs: session.expiresAtMs, token }, response);
    this.#recordSignIn(known, response, { way: 'provider', isNew: false });
  }

  /**
   * Records that the issuer has confirmed the person of a session. False, without a change, where
   * the person has other rights now, or has signed out meanwhile.
   */
  async confirm(key: ApiKey, identity: Identity): Promise<boolean> {
    if (!isSame(identityIn(key), identity)) return false;
    const { client, clock, feeds } = this.#options;
    const { name, namespace, uid } = key.metadata;
    const confirmedTime = isoTime(clock);
    try {
      await client.mergePatch(
        apiKeys,
        namespace,
        name,
        { metadata: { uid }, status: { confirmedTime } },
        { subresource: 'status' },
      );
    } catch (error) {
      if (isNotFound(error) || isConflict(error)) return false;
      throw error;
    }
    await feeds.apiKeys.settled(name, (seen) => seen?.status?.confirmedTime === confirmedTime);
    return true;
  }

  /** A session whose person has to be confirmed again, and the token to ask the issuer with. */
  unconfirmedOf(
    request: CookieRequest,
  ): { readonly key: ApiKey; readonly token: AccessToken } | undefined {
    const session = this.#sessionOf(request);
    if (session?.token === undefined || this.holderOf(request) !== undefined) return undefined;
    const key = this.personSessionOf(request);
    return key && { key, token: session.token };
  }

  /**
   * The session of a person that an identity provider has signed in, also while the provider has to
   * confirm the person again; undefined without one.
   */
  personSessionOf(request: CookieRequest): ApiKey | undefined {
    const session = this.#sessionOf(request);
    const valid = session && this.#options.ring.byName(session.name, session.uid, 'none');
    return valid?.key.spec.person === undefined ? undefined : valid.key;
  }

  /** Ends that session, and what it has opened. */
  async endPersonSession(response: Response, reason: SessionEnd['reason']): Promise<void> {
    const known = this.personSessionOf(response.req);
    if (known !== undefined) await this.end(known, response, { reason });
  }

  /** Ends a session, and what it has opened. */
  async end(
    key: Pick<ApiKey, 'metadata' | 'spec'>,
    response: Response,
    why: SessionEnd,
  ): Promise<void> {
    const { feeds, audit } = this.#options;
    const { name, uid } = key.metadata;
    await this.#delete(key.metadata);
    audit('SessionEnded', { ...originOf(response), ...sessionHolder(key), ...why });
    await feeds.apiKeys.settled(name, (seen) => seen?.metadata.uid !== uid);
  }

  #recordSignIn(
    session: Pick<ApiKey, 'metadata' | 'spec'>,
    response: Response,
    way: SignInWay & { readonly isNew: boolean },
  ): void {
    const { role, scopes, person } = session.spec;
    const { issuer, subject, name } = person ?? {};
    this.#options.audit('SignIn', {
      ...originOf(response),
      ...sessionHolder(session),
      ...way,
      role,
      scopes,
      issuer,
      subject,
      name,
    });
  }

  /**
   * Creates an ApiKey that only opens the session, and sets the cookie. Each session has its own
   * ApiKey, so that a sign-out ends everything that the session has opened, and nothing else.
   */
  async #open(
    { owner, role, scopes, templates, person, issuedBy }: SessionSpec,
    response: Response,
    way: SignInWay,
    token?: AccessToken,
  ): Promise<void> {
    const { client, namespace, clock, feeds, random, maxKeyLifetimeMs = Infinity } = this.#options;
    // A browser has one session: the one that it replaces ends.
    await this.endPersonSession(response, 'Replaced');
    const issuerEndMs = this.#issuerExpiryOf(issuedBy);
    await this.#makeRoom(owner, response);
    const expiresAtMs = Math.min(clock.now() + Math.min(sessionMs, maxKeyLifetimeMs), issuerEndMs);
    // The key in clear text is stored nowhere; the cookie has the name and UID of the ApiKey.
    const { resource } = await issueKey({
      client,
      namespace,
      random,
      owner,
      role,
      scopes,
      templates,
      person,
      issuedBy,
      description: 'The session of a person in a browser.',
      signIn: 'Session',
      expiresAt: new Date(expiresAtMs).toISOString(),
    });
    await feeds.apiKeys.settled(resource.metadata.name, (seen) => seen !== undefined);
    this.#set(resource, { expiresAtMs, token }, response);
    this.#recordSignIn(resource, response, { ...way, isNew: true });
  }

  /** Ends the session of the request, and removes its cookie. */
  async close(response: Response): Promise<void> {
    const { publicUrl } = this.#options;
    const { req: request } = response;
    await this.endPersonSession(response, 'SignedOut');
    const holder = this.#holderOf(request);
    if (holder !== undefined) await this.end(holder.key, response, { reason: 'SignedOut' });
    // Without its cookie a session could not be ended after a failure.
    response.appendHeader(
      'set-cookie',
      setCookie(request, publicUrl(), { value: '', maxAgeSeconds: 0 }),
    );
  }

  #sessionOf(request: CookieRequest): Session | undefined {
    const { keys, clock, publicUrl } = this.#options;
    const sealed = readCookie(request, publicUrl());
    if (sealed === undefined) return undefined;
    const session = unseal('session', sealed, keys.sessionSealKeys(), sessionSchema);
    return session === undefined || session.expiresAtMs <= clock.now() ? undefined : session;
  }

  #set(
    { metadata: { name, uid } }: { readonly metadata: Pick<ApiKey['metadata'], 'name' | 'uid'> },
    { expiresAtMs, token }: Pick<Session, 'expiresAtMs' | 'token'>,
    response: Response,
  ): void {
    const { keys, clock, publicUrl, random } = this.#options;
    const issuedAtMs = clock.now();
    const session: Session = compact({ name, uid, issuedAtMs, expiresAtMs, token });
    const value = seal('session', session, keys.sessionSealKeys(), random);
    const maxAgeSeconds = Math.max(1, Math.floor((expiresAtMs - issuedAtMs) / 1000));
    const cookie = setCookie(response.req, publicUrl(), { value, maxAgeSeconds });
    response.appendHeader('set-cookie', cookie);
  }

  #issuerExpiryOf(issuedBy: ApiKeySpec['issuedBy']): number {
    if (issuedBy === undefined) return Infinity;
    return this.#options.ring.byName(issuedBy.name, issuedBy.uid)?.chain.expiresAtMs ?? 0;
  }

  /** Deletes the owner's expired links and sessions, and the oldest sessions above the maximum. */
  async #makeRoom(owner: string, response: Response): Promise<void> {
    const { lookup, clock } = this.#options;
    const open = lookup
      .apiKeysOf(owner)
      .filter((key) => key.spec.signIn === 'Session' && !hasExpired(key, clock))
      .sort(
        (one, other) =>
          Date.parse(one.metadata.creationTimestamp) - Date.parse(other.metadata.creationTimestamp),
      );
    const surplus = open.slice(0, Math.max(0, open.length - maxSessions + 1));
    for (const { metadata } of expiredSignIns(lookup, clock)) await this.#delete(metadata);
    for (const session of surplus) await this.end(session, response, { reason: 'TooMany' });
  }

  async #delete({
    namespace,
    name,
    uid,
  }: Pick<ApiKey['metadata'], 'namespace' | 'name' | 'uid'>): Promise<void> {
    await unlessChanged(this.#options.client.delete(apiKeys, namespace, name, { uid }));
  }
}
