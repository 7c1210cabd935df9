import * as oidc from 'openid-client';
import { fetch as undiciFetch, type Dispatcher } from 'undici';
import { z } from 'zod';
import type { Logger } from '@conversation-operator/base/logger';
import type { Outward } from '@conversation-operator/outward/outward';
import type { Clock } from '@conversation-operator/base/clock';
import { compact } from '@conversation-operator/base/compact';
import { maxTokenLength, type AccessToken } from './session-cookie.ts';
import { IdentityRefused, type Claims, type IssuerSettings } from './identity.ts';

/**
 * A sign-in that has begun at an issuer. The browser keeps it in a sealed cookie, so that any
 * replica finishes what another one began.
 */
export const transactionSchema = z.object({
  /** Name of the issuer. */
  issuer: z.string(),
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  /** Path of the service to open afterwards. */
  returnTo: z.string(),
  /** Whether the issuer must not ask the person anything. */
  isSilent: z.boolean(),
  /** Milliseconds since 1970. */
  expiresAtMs: z.int().positive(),
});
export type Transaction = z.output<typeof transactionSchema>;

/** Maximum time that a person takes at the issuer. */
export const transactionMs = 10 * 60_000;

/** The issuer can not be reached, or its answers are not valid; for the log and for the person. */
export class IssuerFailed extends Error {
  override readonly name = 'IssuerFailed';
}

/** The issuer would have to ask the person something, which a silent request forbids. */
export class InteractionRequired extends Error {
  override readonly name = 'InteractionRequired';
}

const interactionErrors: ReadonlySet<string> = new Set([
  'login_required',
  'interaction_required',
  'consent_required',
  'account_selection_required',
]);

/** Age at which the discovery document and the keys of an issuer are read again. */
const maxConfigurationMs = 60_000;
/** Time after which an issuer that has failed is read again. */
const retryMs = 2_000;
const timeoutSeconds = 10;
/** Permitted difference between the clocks of the issuer and of the gateway. */
const clockToleranceSeconds = 60;
/** For an issuer on this machine, the only one that the settings accept without TLS. */
// oxlint-disable-next-line typescript/no-deprecated -- deprecated only to draw attention
const allowPlainHttp: (configuration: oidc.Configuration) => void = oidc.allowInsecureRequests;
/** Maximum size of an answer of an issuer, so that no claim fills the memory. */
const maxAnswerBytes = 256 * 1024;

export interface IdentityProvidersOptions {
  readonly issuers: readonly IssuerSettings[];
  /** Absent: there are no issuers. */
  readonly outward?: Outward;
  readonly clock: Clock;
  readonly logger: Logger;
  /** URL of the gateway for browsers, without a slash at the end. */
  readonly publicUrl: () => string;
}

const isAnswer = (error: unknown): boolean =>
  error instanceof oidc.ResponseBodyError || error instanceof oidc.AuthorizationResponseError;

/** The messages of an error and its causes. The causes themselves may contain tokens. */
function reasonOf(error: unknown): string {
  const texts: string[] = [];
  for (let cause = error; cause instanceof Error && texts.length < 4; cause = cause.cause)
    texts.push(cause.message);
  return texts.join(': ');
}

/** The address and its verification belong together: both are those of one answer. */
const withUserInfo = (claims: Claims, info: Claims): Claims =>
  Object.hasOwn(claims, 'email_verified')
    ? { ...info, ...claims }
    : { ...info, ...claims, email: info['email'], email_verified: info['email_verified'] };

/** The claims of a person whom the issuer has confirmed. */
export interface Confirmed {
  readonly claims: Claims;
  /** To ask the issuer again with; absent where the browser has to. */
  readonly token?: AccessToken | undefined;
}

const hasUserInfo = (configuration: oidc.Configuration): boolean =>
  configuration.serverMetadata().userinfo_endpoint !== undefined;

interface Known {
  readonly configuration: Promise<oidc.Configuration>;
  readonly readAtMs: number;
}

/** The code flow with PKCE at the configured identity providers. No state but a short cache. */
export class IdentityProviders {
  readonly issuers: readonly IssuerSettings[];
  readonly #options: IdentityProvidersOptions;
  readonly #pool: Dispatcher | undefined;
  readonly #known = new Map<string, Known>();
  /** Time of the last failed read, by issuer. */
  readonly #failedAtMs = new Map<string, number>();

  constructor(options: IdentityProvidersOptions) {
    this.issuers = options.issuers;
    this.#options = options;
    this.#pool = options.outward?.pool({
      connections: 16,
      connectTimeoutMs: timeoutSeconds * 1000,
      maxResponseBytes: maxAnswerBytes,
    });
  }

  find(name: string): IssuerSettings | undefined {
    return this.issuers.find((issuer) => issuer.name === name);
  }

  /** Address at the issuer that begins a sign-in. Throws `IssuerFailed`. */
  async begin(
    settings: IssuerSettings,
    { returnTo, isSilent }: Pick<Transaction, 'returnTo' | 'isSilent'>,
  ): Promise<{ readonly location: string; readonly transaction: Transaction }> {
    const transaction: Transaction = {
      issuer: settings.name,
      state: oidc.randomState(),
      nonce: oidc.randomNonce(),
      verifier: oidc.randomPKCECodeVerifier(),
      returnTo,
      isSilent,
      expiresAtMs: this.#options.clock.now() + transactionMs,
    };
    const challenge = await oidc.calculatePKCECodeChallenge(transaction.verifier);
    return this.#with(settings, (configuration) => {
      const location = oidc.buildAuthorizationUrl(configuration, {
        redirect_uri: this.#redirectUri(settings),
        scope: settings.scopes.join(' '),
        state: transaction.state,
        nonce: transaction.nonce,
        code_challenge: challenge,
        code_challenge_method: 'S256',
        ...(isSilent ? { prompt: 'none' } : {}),
      });
      return { location: location.href, transaction };
    });
  }

  /**
   * Confirms the person whom the issuer has sent back, with `query` as it was sent. Throws
   * `InteractionRequired`, `IdentityRefused` where the issuer or the person refused, and
   * `IssuerFailed` for everything that is not as the transaction expects.
   */
  async finish(
    settings: IssuerSettings,
    { state, nonce, verifier }: Transaction,
    query: string,
  ): Promise<Confirmed> {
    return this.#with(settings, async (configuration) => {
      const tokens = await oidc.authorizationCodeGrant(
        configuration,
        new URL(`${this.#redirectUri(settings)}?${query}`),
        {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: verifier,
          idTokenExpected: true,
        },
      );
      const claims = tokens.claims();
      if (claims === undefined) throw new IssuerFailed('there is no ID token');
      if (claims.sub === '' || claims.sub.length > 255)
        throw new IssuerFailed('the subject has more than 255 characters');
      if (settings.recheck !== 'introspection')
        return {
          claims:
            this.#isComplete(settings, claims) || !hasUserInfo(configuration)
              ? claims
              : withUserInfo(
                  claims,
                  await oidc.fetchUserInfo(configuration, tokens.access_token, claims.sub),
                ),
        };
      // The rights come from where the next check reads them, or it would see others.
      const current = await this.#claimsOf(configuration, tokens.access_token, claims.sub);
      if (current === undefined) throw new IssuerFailed('the new access token is not active');
      return { claims: current, token: this.#kept(settings, tokens) };
    });
  }

  /**
   * The claims that the issuer has now of the person with this access token; undefined if the token
   * is not active any more. Throws `IssuerFailed`.
   */
  async introspect(
    settings: IssuerSettings,
    { text }: AccessToken,
    subject: string,
  ): Promise<Claims | undefined> {
    return this.#with(settings, (configuration) => this.#claimsOf(configuration, text, subject));
  }

  /** Address that ends the session at the issuer too; undefined where the issuer has none. */
  async endSessionUrl(settings: IssuerSettings): Promise<string | undefined> {
    return this.#with(settings, (configuration) =>
      configuration.serverMetadata().end_session_endpoint === undefined
        ? undefined
        : oidc.buildEndSessionUrl(configuration, {
            post_logout_redirect_uri: `${this.#options.publicUrl()}/login`,
          }).href,
    );
  }

  async close(): Promise<void> {
    await this.#pool?.destroy();
  }

  async #claimsOf(
    configuration: oidc.Configuration,
    token: string,
    subject: string,
  ): Promise<Claims | undefined> {
    if (configuration.serverMetadata().introspection_endpoint === undefined)
      throw new IssuerFailed('the identity provider has no introspection_endpoint');
    const answer = await oidc.tokenIntrospection(configuration, token);
    if (!answer.active) return undefined;
    if (answer.sub !== undefined && answer.sub !== subject)
      throw new IssuerFailed('the access token is that of another subject');
    const introspected: Claims = { ...answer, sub: subject };
    // Some issuers repeat here what the token said at its creation, so userinfo counts more.
    return hasUserInfo(configuration)
      ? withUserInfo(await oidc.fetchUserInfo(configuration, token, subject), introspected)
      : introspected;
  }

  /** The token for the cookie of the session; undefined for one that is too long for a cookie. */
  #kept(
    { name: issuer }: IssuerSettings,
    { access_token: text, expires_in: seconds }: oidc.TokenEndpointResponse,
  ): AccessToken | undefined {
    if (JSON.stringify(text).length > maxTokenLength) {
      const { length } = text;
      this.#options.logger.warn(
        'An access token is too long for a cookie: the browser asks the issuer again instead',
        { issuer, length, maxTokenLength },
      );
      return undefined;
    }
    const expiresAtMs =
      seconds === undefined ? undefined : this.#options.clock.now() + seconds * 1000;
    return compact({ text, expiresAtMs });
  }

  /** RFC 9700, 4.4.2.2: an address for each issuer, so that no issuer gets the code of another. */
  #redirectUri({ name }: IssuerSettings): string {
    return `${this.#options.publicUrl()}/oauth/callback/${name}`;
  }

  /** Whether the ID token has all claims that decide; some issuers have them in userinfo alone. */
  #isComplete(
    { rules, ownerClaim, nameClaim, trustsEmail = false }: IssuerSettings,
    claims: Claims,
  ): boolean {
    const paths = [ownerClaim ?? ['sub'], nameClaim];
    for (const rule of rules) {
      // An expression may read any claim.
      if ('when' in rule) return false;
      paths.push(rule.claim);
    }
    const names = new Set(paths.map(([name = '']) => name));
    if (names.has('email') && !trustsEmail) names.add('email_verified');
    return [...names].every((name) => Object.hasOwn(claims, name));
  }

  async #with<T>(
    settings: IssuerSettings,
    use: (configuration: oidc.Configuration) => T | Promise<T>,
  ): Promise<T> {
    try {
      return await use(await this.#configurationOf(settings));
    } catch (error) {
      if (error instanceof IdentityRefused) throw error;
      if (error instanceof oidc.AuthorizationResponseError) {
        if (interactionErrors.has(error.error)) throw new InteractionRequired();
        if (error.error === 'access_denied')
          throw new IdentityRefused('The identity provider has not let you in (access_denied).');
      }
      // Its keys or its addresses may have changed since they were read. An answer with an error,
      // which anyone can cause, says nothing of that.
      if (!isAnswer(error)) this.#known.delete(settings.name);
      this.#options.logger.warn('A sign-in at an identity provider failed', {
        issuer: settings.name,
        reason: reasonOf(error),
      });
      throw error instanceof IssuerFailed
        ? error
        : new IssuerFailed('the identity provider has failed', { cause: error });
    }
  }

  async #configurationOf(settings: IssuerSettings): Promise<oidc.Configuration> {
    const nowMs = this.#options.clock.monotonic();
    const known = this.#known.get(settings.name);
    if (known !== undefined && nowMs - known.readAtMs < maxConfigurationMs)
      return known.configuration;
    const failedAtMs = this.#failedAtMs.get(settings.name) ?? -Infinity;
    if (nowMs - failedAtMs < retryMs) throw new IssuerFailed('it has failed a moment ago');
    const configuration = this.#read(settings);
    this.#known.set(settings.name, { configuration, readAtMs: nowMs });
    configuration.catch(() => this.#failedAtMs.set(settings.name, nowMs));
    return configuration;
  }

  async #read({ issuer, clientId, clientSecret }: IssuerSettings): Promise<oidc.Configuration> {
    const send: oidc.CustomFetch = (url, { body, ...options }) =>
      undiciFetch(url, {
        ...options,
        body: body ?? null,
        redirect: 'error',
        ...(this.#pool && { dispatcher: this.#pool }),
      });
    const rules = issuer.startsWith('http:') ? [allowPlainHttp] : [];
    const found = await oidc.discovery(new URL(issuer), clientId, undefined, oidc.None(), {
      timeout: timeoutSeconds,
      [oidc.customFetch]: send,
      execute: rules,
    });
    const server = found.serverMetadata();
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
    const authentication =
      clientSecret === undefined
        ? oidc.None()
        : methods.includes('client_secret_basic')
          ? oidc.ClientSecretBasic(clientSecret)
          : oidc.ClientSecretPost(clientSecret);
    const configuration = new oidc.Configuration(
      server,
      clientId,
      { [oidc.clockTolerance]: clockToleranceSeconds },
      authentication,
    );
    configuration.timeout = timeoutSeconds;
    configuration[oidc.customFetch] = send;
    for (const rule of rules) rule(configuration);
    // Signatures are checked too, although the token comes from the issuer itself.
    oidc.enableNonRepudiationChecks(configuration);
    return configuration;
  }
}
