import { createHash } from 'node:crypto';
import { createLocalJWKSet, decodeProtectedHeader, jwtVerify, type JSONWebKeySet } from 'jose';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isAlreadyExists, unlessChanged } from '@conversation-operator/kube/errors';
import { apiKeys, type ApiKey, type ApiKeySpec } from '../../resources/api-key.ts';
import { apiVersion } from '../../resources/group.ts';
import { compact } from '@conversation-operator/base/compact';
import { principalOfKey, type KeyRing, type Principal, type ValidKey } from '../auth/key-ring.ts';
import type { RandomBytes } from '../auth/key.ts';
import { expiryBy } from '../lookup/cache.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { createdFields } from '../keys/keys.ts';
import type { Audit, AuditOrigin } from '../../observability/audit.ts';
import { isLive } from '@conversation-operator/kube/object';
import { expiredSignIns } from './sessions.ts';

interface ServiceAccountRule {
  readonly namespace: string;
  readonly name: string;
  readonly owner: string;
  readonly role: ApiKeySpec['role'];
  readonly scopes?: ApiKeySpec['scopes'];
  readonly templates?: ApiKeySpec['templates'];
}

export interface ServiceAccountSettings {
  /** Audience that a token has to name. */
  readonly audience: string;
  /** Whether the API server is asked about each token. */
  readonly tokenReview: boolean;
  readonly rules: readonly ServiceAccountRule[];
}

/** The issuer of the cluster's tokens, and the keys that sign them. */
export interface ClusterKeys {
  readonly issuer: string;
  readonly keys: JSONWebKeySet;
}

export interface ServiceAccountsOptions {
  readonly settings: ServiceAccountSettings;
  /** Reads the keys from the API server, with the token of the gateway's own service account. */
  readonly readKeys: () => Promise<ClusterKeys>;
  /**
   * Asks the API server (TokenReview) about a token for this audience. Returns the name of its
   * user; undefined for a token that the API server refuses, such as one of a deleted Pod.
   */
  readonly review: (token: string, audience: string) => Promise<string | undefined>;
  readonly client: Pick<KubeClient, 'create' | 'delete'>;
  readonly lookup: Pick<ResourceLookup, 'everyApiKey'>;
  readonly namespace: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly ring: KeyRing;
  readonly feed: Pick<ObjectFeed<ApiKey>, 'settled'>;
  readonly random: RandomBytes;
  readonly audit: Audit;
}

const claimsSchema = z.object({
  exp: z.number(),
  'kubernetes.io': z.object({
    namespace: z.string(),
    serviceaccount: z.object({ name: z.string() }),
  }),
});

const maxTokenLength = 8192;
const jwtShape = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const clockToleranceSeconds = 60;
/** Age at which a token, and the keys of the cluster, are checked again. */
const recheckMs = 60_000;
/** Minimum time between two reads of the keys because of a token with an unknown key. */
const unknownKeyMs = 5_000;
const maxTokens = 10_000;
/** A key of a service account lives at most twice as long. */
const slotMs = 60 * 60 * 1000;

/** Undefined for a text whose first part is no header of a token. */
function headerOf(token: string): { readonly kid: string | undefined } | undefined {
  try {
    const { kid } = decodeProtectedHeader(token);
    return { kid };
  } catch {
    return undefined;
  }
}

/** The rule of a token, and its expiry in milliseconds since 1970. */
interface Verified {
  readonly rule: ServiceAccountRule;
  readonly expiresAtMs: number;
}

/**
 * Lets programs in the cluster use the service with a projected token of their service account. A
 * rule gives each service account an owner. Everything that depends on a key, such as session keys
 * and the audit log, uses an ApiKey of the service account, which the first request of an hour
 * creates and whose text nobody has.
 */
export class ServiceAccounts {
  readonly #options: ServiceAccountsOptions;
  readonly #verified: LRUCache<string, Verified | 'refused'>;
  /** The last keys that were read, which count while the API server does not answer. */
  #known: ClusterKeys | undefined;
  #reading: Promise<void> | undefined;
  #readAtMs = -Infinity;

  constructor(options: ServiceAccountsOptions) {
    this.#options = options;
    this.#verified = new LRUCache({ max: maxTokens, ttl: recheckMs, ...expiryBy(options.clock) });
  }

  /**
   * Undefined for a text that is no valid token of a service account with a rule; `unavailable` if
   * the keys of the cluster, which decide that, have never been read, or if the API server does not
   * answer about the token.
   */
  async principalOf(
    token: string,
    origin: AuditOrigin,
  ): Promise<Principal | 'unavailable' | undefined> {
    if (token.length > maxTokenLength || !jwtShape.test(token)) return undefined;
    const found = await this.#verify(token);
    if (found === 'unavailable') return found;
    if (found === undefined || found === 'refused') return undefined;
    if (found.expiresAtMs <= this.#options.clock.now()) return undefined;
    const key = await this.#keyOf(found.rule, origin);
    if (key === undefined) return undefined;
    const principal = principalOfKey(key);
    const { chain } = principal;
    const expiresAtMs = Math.min(found.expiresAtMs, chain.expiresAtMs);
    return { ...principal, chain: { ...chain, expiresAtMs, validUntilMs: expiresAtMs } };
  }

  async #verify(token: string): Promise<Verified | 'refused' | 'unavailable' | undefined> {
    const digest = createHash('sha256').update(token).digest('hex');
    const known = this.#verified.get(digest);
    if (known !== undefined) return known;
    const header = headerOf(token);
    if (header === undefined) return undefined;
    const ofCluster = await this.#keysFor(header.kid);
    if (ofCluster === undefined) return 'unavailable';
    const verified = await this.#verifyWith(ofCluster, token);
    if (verified === undefined) return undefined;
    const reviewed = await this.#review(token, verified);
    if (reviewed !== 'unavailable') this.#verified.set(digest, reviewed);
    return reviewed;
  }

  async #verifyWith({ issuer, keys }: ClusterKeys, token: string): Promise<Verified | undefined> {
    const { audience, rules } = this.#options.settings;
    try {
      const { payload } = await jwtVerify(token, createLocalJWKSet(keys), {
        issuer,
        audience,
        algorithms: ['RS256', 'RS384', 'RS512', 'ES256', 'ES384', 'ES512', 'PS256', 'EdDSA'],
        clockTolerance: clockToleranceSeconds,
        currentDate: new Date(this.#options.clock.now()),
      });
      const { exp, 'kubernetes.io': kubernetes } = claimsSchema.parse(payload);
      const { namespace, serviceaccount } = kubernetes;
      const rule = rules.find(
        (one) => one.namespace === namespace && one.name === serviceaccount.name,
      );
      return rule && { rule, expiresAtMs: exp * 1000 };
    } catch (error) {
      this.#options.logger.debug('A token of a service account is not valid', { error });
      return undefined;
    }
  }

  /** Only tokens whose signature holds are reviewed: no other text reaches the API server. */
  async #review(token: string, verified: Verified): Promise<Verified | 'refused' | 'unavailable'> {
    const { settings, review, logger } = this.#options;
    const { audience, tokenReview } = settings;
    if (!tokenReview) return verified;
    const { namespace, name } = verified.rule;
    try {
      const user = await review(token, audience);
      return user === `system:serviceaccount:${namespace}:${name}` ? verified : 'refused';
    } catch (error) {
      logger.warn('The API server does not review a token of a service account', { error });
      return 'unavailable';
    }
  }

  /**
   * The keys of the cluster, read again after a while, and for a token with an unknown key.
   * Undefined if they have never been read.
   */
  async #keysFor(kid: string | undefined): Promise<ClusterKeys | undefined> {
    const ageMs = this.#options.clock.monotonic() - this.#readAtMs;
    const isUnknown = this.#known?.keys.keys.every((key) => key.kid !== kid) !== false;
    if (ageMs >= recheckMs || (isUnknown && ageMs >= unknownKeyMs))
      this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
    return this.#known;
  }

  async #read(): Promise<void> {
    const { readKeys, clock, logger } = this.#options;
    this.#readAtMs = clock.monotonic();
    try {
      this.#known = await readKeys();
    } catch (error) {
      logger.warn('The keys of the cluster can not be read', { error });
    }
  }

  /** The ApiKey of a rule for this hour; undefined where it is invalid. */
  async #keyOf(rule: ServiceAccountRule, origin: AuditOrigin): Promise<ValidKey | undefined> {
    const { client, namespace, clock, ring, feed, random, lookup, audit } = this.#options;
    const slot = Math.floor(clock.now() / slotMs);
    const digest = createHash('sha256')
      .update(JSON.stringify([rule, slot]))
      .digest('hex');
    const name = `key-sa-${digest.slice(0, 16)}`;
    const known = ring.named(name, 'ServiceAccount');
    if (known !== undefined) return known;
    // A person has disabled it: another one comes with the next hour.
    if (lookup.everyApiKey().some((key) => key.metadata.name === name && isLive(key)))
      return undefined;
    for (const { metadata } of expiredSignIns(lookup, clock))
      await unlessChanged(client.delete(apiKeys, namespace, metadata.name, { uid: metadata.uid }));
    const { owner, role, scopes, templates } = rule;
    const serviceAccount = `${rule.namespace}/${rule.name}`;
    try {
      const created = await client.create(apiKeys, {
        apiVersion,
        kind: apiKeys.kind,
        metadata: { namespace, name },
        spec: compact({
          owner,
          role,
          scopes,
          templates,
          // Nobody has a text with this hash.
          sha256: createHash('sha256').update(random(32)).digest('hex'),
          description: `Service account ${serviceAccount}`,
          serviceAccount,
          // Requests of the last minutes of an hour may last longer than that hour.
          expirationTime: new Date((slot + 2) * slotMs).toISOString(),
          signIn: 'ServiceAccount' as const,
        }),
      });
      const who = { owner, key: name, serviceAccount };
      audit('KeyCreated', { ...origin, ...who, ...createdFields(created) });
    } catch (error) {
      // Another request, of any replica, has created it.
      if (!isAlreadyExists(error)) throw error;
    }
    await feed.settled(name, (seen) => seen !== undefined);
    return ring.named(name, 'ServiceAccount');
  }
}
