import { createHash } from 'node:crypto';
import { createLocalJWKSet, decodeProtectedHeader, jwtVerify, type JSONWebKeySet } from 'jose';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isAlreadyExists } from '@conversation-operator/kube/errors';
import { apiKeys, type ApiKey, type ApiKeySpec } from '../../resources/api-key.ts';
import { apiVersion } from '../../resources/group.ts';
import { compact } from '@conversation-operator/base/compact';
import { principalOfKey, type KeyRing, type Principal, type ValidKey } from '../auth/key-ring.ts';
import type { RandomBytes } from '../auth/key.ts';
import { expiryBy } from '../lookup/cache.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';

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
  readonly client: Pick<KubeClient, 'create'>;
  readonly namespace: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly ring: KeyRing;
  readonly feed: Pick<ObjectFeed<ApiKey>, 'settled'>;
  readonly random: RandomBytes;
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
const dayMs = 24 * 60 * 60 * 1000;

/** The rule of a token, and its expiry in milliseconds since 1970. */
interface Verified {
  readonly rule: ServiceAccountRule;
  readonly expiresAtMs: number;
}

/**
 * Lets programs in the cluster use the service with a projected token of their service account. A
 * rule gives each service account an owner. Everything that depends on a key, such as session keys
 * and the audit log, uses an ApiKey of the service account, which the first request of a day
 * creates and whose text nobody has.
 */
export class ServiceAccounts {
  readonly #options: ServiceAccountsOptions;
  readonly #verified: LRUCache<string, Verified>;
  #keys: Promise<ClusterKeys> | undefined;
  #keysReadAtMs = -Infinity;

  constructor(options: ServiceAccountsOptions) {
    this.#options = options;
    this.#verified = new LRUCache({ max: maxTokens, ttl: recheckMs, ...expiryBy(options.clock) });
  }

  /** Undefined for a text that is no valid token of a service account with a rule. */
  async principalOf(token: string): Promise<Principal | undefined> {
    if (token.length > maxTokenLength || !jwtShape.test(token)) return undefined;
    const found = await this.#verify(token);
    if (found === undefined || found.expiresAtMs <= this.#options.clock.now()) return undefined;
    const key = await this.#keyOf(found.rule);
    if (key === undefined) return undefined;
    const principal = principalOfKey(key);
    const expiresAtMs = Math.min(found.expiresAtMs, principal.chain.expiresAtMs);
    return { ...principal, chain: { ...principal.chain, expiresAtMs } };
  }

  async #verify(token: string): Promise<Verified | undefined> {
    const digest = createHash('sha256').update(token).digest('hex');
    const known = this.#verified.get(digest);
    if (known !== undefined) return known;
    const { audience, rules } = this.#options.settings;
    try {
      const { issuer, keys } = await this.#keysFor(token);
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
      if (rule === undefined) return undefined;
      const verified = { rule, expiresAtMs: exp * 1000 };
      this.#verified.set(digest, verified);
      return verified;
    } catch (error) {
      this.#options.logger.debug('A token of a service account is not valid', { error });
      return undefined;
    }
  }

  /** The keys of the cluster, read again after a while, and for a token with an unknown key. */
  async #keysFor(token: string): Promise<ClusterKeys> {
    const { clock } = this.#options;
    const known = await this.#keys?.catch(() => undefined);
    const ageMs = clock.monotonic() - this.#keysReadAtMs;
    const { kid } = decodeProtectedHeader(token);
    const hasKey = known?.keys.keys.some((key) => key.kid === kid) === true;
    if (known !== undefined && ageMs < recheckMs && (hasKey || ageMs < unknownKeyMs)) return known;
    if (known === undefined && ageMs < 1000 && this.#keys !== undefined) return this.#keys;
    this.#keysReadAtMs = clock.monotonic();
    this.#keys = this.#options.readKeys();
    return this.#keys;
  }

  /** The ApiKey of a rule for this day; undefined where it is invalid. */
  async #keyOf(rule: ServiceAccountRule): Promise<ValidKey | undefined> {
    const { client, namespace, clock, ring, feed, random } = this.#options;
    const day = Math.floor(clock.now() / dayMs);
    const digest = createHash('sha256')
      .update(JSON.stringify([rule, day]))
      .digest('hex');
    const name = `key-sa-${digest.slice(0, 16)}`;
    const known = ring.named(name, 'ServiceAccount');
    if (known !== undefined) return known;
    const { owner, role, scopes, templates } = rule;
    try {
      await client.create(apiKeys, {
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
          description: `Service account ${rule.namespace}/${rule.name}`,
          // Requests of the last minutes of a day may last longer than that day.
          expirationTime: new Date((day + 2) * dayMs).toISOString(),
          signIn: 'ServiceAccount' as const,
        }),
      });
    } catch (error) {
      // Another request, of any replica, has created it.
      if (!isAlreadyExists(error)) throw error;
    }
    await feed.settled(name, (seen) => seen !== undefined);
    return ring.named(name, 'ServiceAccount');
  }
}
