import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { Request, Response } from 'express';
import { LRUCache } from 'lru-cache';
import type { ApiKey } from '../../resources/api-key.ts';
import { expiryBy } from '../lookup/cache.ts';
import { IssuerFailed, type IdentityProviders } from './identity-providers.ts';
import {
  identityOf,
  IdentityRefused,
  type Claims,
  type Identity,
  type IssuerSettings,
} from './identity.ts';
import type { AccessToken } from './session-cookie.ts';
import type { SessionEnd, Sessions } from './sessions.ts';

interface PersonChecksOptions {
  readonly sessions: Pick<Sessions, 'unconfirmedOf' | 'confirm' | 'end'>;
  readonly identityProviders: Pick<IdentityProviders, 'find' | 'introspect' | 'issuers'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Permitted difference between the clocks of the issuer and of the gateway. */
const clockSkewMs = 60_000;
/** Time after which an issuer is asked about the same session again that has not answered. */
const repeatMs = 10_000;

/** Asks identity providers for which the settings say so about the people of sessions. */
export class PersonChecks {
  readonly #options: PersonChecksOptions;
  /** By the UID of the session's ApiKey: a page sends many requests at once, and again at once. */
  readonly #checks: LRUCache<string, Promise<void>>;

  constructor(options: PersonChecksOptions) {
    this.#options = options;
    this.#checks = new LRUCache({ max: 1_000, ttl: repeatMs, ...expiryBy(options.clock) });
  }

  /** Throws `IdentityRefused` if no rule matches. */
  identityOf(claims: Claims, settings: IssuerSettings): Identity {
    const { identityProviders, logger } = this.#options;
    const names = identityProviders.issuers.map(({ name }) => name);
    return identityOf(claims, settings, names, (failure) =>
      logger.warn('A rule of an identity provider gives no answer, and counts as no match', {
        issuer: settings.name,
        subject: claims.sub,
        ...failure,
      }),
    );
  }

  /**
   * Confirms the session of a request that has to be confirmed again, with the access token in its
   * cookie, or ends it. Nothing changes where the issuer does not answer, or the token has expired:
   * the session then opens nothing until the browser has asked the issuer.
   */
  async check(request: Request, response: Response): Promise<void> {
    const found = this.#options.sessions.unconfirmedOf(request);
    if (found === undefined) return;
    const { uid } = found.key.metadata;
    let check = this.#checks.get(uid);
    if (check === undefined) {
      check = this.#ask(found, response);
      this.#checks.set(uid, check);
    }
    await check;
  }

  async #ask(
    { key, token }: { readonly key: ApiKey; readonly token: AccessToken },
    response: Response,
  ): Promise<void> {
    const { sessions, identityProviders } = this.#options;
    const { person } = key.spec;
    const issuer = identityProviders.find(person?.issuer ?? '');
    if (person === undefined || issuer?.recheck !== 'introspection') return;
    if (this.#hasExpired(token, 0)) return;
    let why: SessionEnd;
    try {
      const claims = await identityProviders.introspect(issuer, token, person.subject);
      if (claims === undefined && this.#hasExpired(token, clockSkewMs)) return;
      if (claims !== undefined && (await sessions.confirm(key, this.identityOf(claims, issuer))))
        return;
      why = { reason: claims === undefined ? 'TokenEnded' : 'OtherRights' };
    } catch (error) {
      if (error instanceof IssuerFailed) return;
      if (!(error instanceof IdentityRefused)) throw error;
      why = { reason: 'Refused', detail: error.message };
    }
    await sessions.end(key, response, why);
  }

  #hasExpired({ expiresAtMs = Infinity }: AccessToken, skewMs: number): boolean {
    return expiresAtMs - skewMs <= this.#options.clock.now();
  }
}
