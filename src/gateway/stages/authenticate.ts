import type { ServiceAccounts } from '../sign-in/service-accounts.ts';
import type { PersonChecks } from '../sign-in/person-checks.ts';
import type { Sessions } from '../sign-in/sessions.ts';
import type { AgentAccess } from '../proxy/agent-access.ts';
import type { KeyUse } from '../auth/key-use.ts';
import {
  type KeyRing,
  authenticate as authenticateHeaders,
  authenticateKey,
  type KeyChain,
  keysOf,
  requireScope,
  type Principal,
} from '../auth/key-ring.ts';
import type { RateLimits } from '@conversation-operator/http/limits/rate-limits';
import type { TrustedProxies } from '@conversation-operator/http/limits/client-address';
import type { Request, RequestHandler, Response } from 'express';
import { unavailable } from '../errors/common-problems.ts';
import type { AuditOrigin } from '../../observability/audit.ts';
import { originOf, scopeOf, type Route } from '../http/route.ts';

interface AuthenticationNeeds {
  readonly agents: AgentAccess;
  readonly isSynced: () => boolean;
  readonly keyUse: KeyUse;
  readonly proxies: TrustedProxies;
  readonly rateLimits: RateLimits;
  readonly ring: KeyRing;
  readonly sessions: Sessions;
  readonly personChecks: PersonChecks;
  /** Absent where no service account has a rule. */
  readonly serviceAccounts: ServiceAccounts | undefined;
}

/**
 * Finds the owner of a request by its session key, API key, or browser session. Throws 401 for a
 * request without a valid key or session, 429 after too many such requests, 403 for a key without
 * the scope of the route, and 503 until the caches are synced: before that, a key that the cache
 * lacks could be valid.
 */
export const authenticate =
  (needs: AuthenticationNeeds, route: Route): RequestHandler =>
  async (request, response, next) => {
    if (!needs.isSynced()) throw unavailable();
    const opened = openedBySessionKey(needs.agents, route, request);
    if (opened === undefined) {
      const principal = (await signedIn(needs, request, response)) ?? principalOf(needs, request);
      needs.keyUse.seen(principal.keyName);
      response.locals.principal = principal;
      response.locals.owner = principal.owner;
      response.locals.chain = principal.chain;
      refuseWithoutScope(principal.chain, route);
    } else {
      response.locals.owner = opened.owner;
      response.locals.chain = opened.chain;
      refuseWithoutScope(opened.chain, route);
    }
    next();
  };

function refuseWithoutScope(chain: KeyChain, route: Route): void {
  const scope = scopeOf(route);
  if (scope !== undefined) requireScope(chain, scope);
}

/**
 * The owner of the sandbox whose session key a request has, and the `KeyChain` of the session key.
 * A valid session key is not tried as an API key, so it does not count as a failed attempt.
 */
function openedBySessionKey(
  agents: AgentAccess,
  { access }: Route,
  { params: { id }, headers }: Request,
): ReturnType<AgentAccess['opensSession']> {
  return access === 'session' && typeof id === 'string'
    ? agents.opensSession(id, headers)
    : undefined;
}

/** The principal of a session or of a service account. Undefined: neither, or not valid. */
const signedIn = async (
  needs: SignInNeeds,
  request: Request,
  response: Response,
): Promise<Principal | undefined> =>
  (await personOf(needs, request, response)) ??
  (await programOf(needs.serviceAccounts, request, originOf(response)));

type SignInNeeds = Pick<AuthenticationNeeds, 'sessions' | 'personChecks' | 'serviceAccounts'>;
export type ReaderNeeds = SignInNeeds & Pick<AuthenticationNeeds, 'ring'>;

/** The principal of a request that needs none. Undefined: the request has no valid credential. */
export async function principalIfAny(
  needs: ReaderNeeds,
  request: Request,
  response: Response,
): Promise<Principal | undefined> {
  const principal = await signedIn(needs, request, response);
  if (principal !== undefined) return principal;
  for (const key of keysOf(request.headers)) {
    const found = authenticateKey(needs.ring, key);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The principal of the session cookie, for a request without an API key or session key. */
async function personOf(
  { sessions, personChecks }: SignInNeeds,
  request: Request,
  response: Response,
): Promise<Principal | undefined> {
  const { cookie, authorization, 'x-session-api-key': key } = request.headers;
  if (cookie === undefined || authorization !== undefined || key !== undefined) return undefined;
  await sessions.seen(request);
  await personChecks.check(request, response);
  return sessions.principalOf(request);
}

/** The principal of the service account whose token a request has. */
async function programOf(
  serviceAccounts: ServiceAccounts | undefined,
  request: Request,
  origin: AuditOrigin,
): Promise<Principal | undefined> {
  if (serviceAccounts === undefined) return undefined;
  for (const key of keysOf(request.headers)) {
    const principal = await serviceAccounts.principalOf(key, origin);
    if (principal === 'unavailable') throw unavailable();
    if (principal !== undefined) return principal;
  }
  return undefined;
}

function principalOf(
  { ring, rateLimits, proxies }: AuthenticationNeeds,
  request: Request,
): Principal {
  try {
    return authenticateHeaders(ring, request.headers);
  } catch (error) {
    rateLimits.failedKey(proxies.clientAddress(request));
    throw error;
  }
}
