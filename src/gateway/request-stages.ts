import express, { type Express, type RequestHandler } from 'express';
import { type Route, kindOf, originOf } from './http/route.ts';
import { uiPages } from './pages/ui.ts';
import type { Services } from './services.ts';
import { authenticate } from './stages/authenticate.ts';
import { handle, respond, respondWithProblem, parseBody, readBody } from './stages/respond.ts';
import {
  announceShutdown,
  joinWithSandbox,
  limitAddress,
  limitAddressOfUpgrade,
  limitRequestTime,
  proxyToSandbox,
  shedLoad,
  type Stage,
  type UpgradeStage,
} from './stages/node-stages.ts';
import { legacyInterface } from './conversations/legacy.ts';
import { ProblemError } from './errors/problem-error.ts';
import type { TrustedProxies } from '@conversation-operator/http/limits/client-address';
import type { Logger } from '@conversation-operator/base/logger';
import type { Audit } from '../observability/audit.ts';
import type { Refusals } from './audit/refusals.ts';
import { holderOf } from './auth/key-ring.ts';
import type { Clock } from '@conversation-operator/base/clock';
import type { Metrics } from '../observability/metrics.ts';
import { requestIdOf } from './http/send-bytes.ts';

/**
 * The stages of a request in the gateway, in order. Before them, `createHttpServer` limits the
 * connections, reads the head of the request and rejects an ambiguous head. For a request to an
 * agent, `proxyToSandbox` is the last stage; `proxy/proxy-http.ts` has its further stages.
 */
export const requestStages = (services: Services, app: Express): readonly Stage[] => [
  announceShutdown(services),
  limitAddress(services),
  proxyToSandbox(services),
  shedLoad(services),
  limitRequestTime(services),
  (request, response) => {
    app(request, response);
    return true;
  },
];

/** The stages of a WebSocket handshake; `proxy/proxy-websocket.ts` has the stages for agents. */
export const upgradeStages = (services: Services): readonly UpgradeStage[] => [
  limitAddressOfUpgrade(services),
  joinWithSandbox(services),
];

/** The stages of a request for the service itself, up to its route. */
const serviceStages = (services: Services): readonly RequestHandler[] => [
  accessLog(services),
  answerPreflight(services),
];

/** The stages of a request with a route. Each stage stores its results in `response.locals`. */
const routeStages = (services: Services, route: Route): readonly RequestHandler[] => [
  selectRoute(route),
  ...(route.access === 'open' ? [] : [authenticate(services, route), limitOwner(services, route)]),
  ...(route.access === 'key' && route.method !== 'get'
    ? [readBody(services, route), parseBody(services)]
    : []),
  handle(services, route),
  respond(services, route),
];

/**
 * The Express app of the service: common stages, and the stages of each route. A problem that a
 * stage throws becomes the response. Without `legacyApi`, responses under /api/conversations have
 * the status 410.
 */
export function createApp(
  services: Services,
  { routes, legacyApi }: { readonly routes: readonly Route[]; readonly legacyApi: boolean },
): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag').set('query parser', false);
  app.use(...serviceStages(services));
  app.use('/api/conversations', legacyInterface(services, legacyApi));
  // Paths without parameters come first, so that `/search` never matches as an id, not even with a
  // method that is not allowed.
  const byPath = Map.groupBy(
    routes.toSorted(
      (left, right) => Number(left.path.includes('{')) - Number(right.path.includes('{')),
    ),
    ({ path }) => path,
  );
  for (const [path, group] of byPath) {
    const pattern = path.replaceAll(/\{(\w+)\}/g, ':$1');
    for (const route of group) app[route.method](pattern, ...routeStages(services, route));
    app.all(pattern, refuseMethod(group));
  }
  app.use(uiPages(services.ui, routes), refusePath);
  app.use(respondWithProblem(services));
  return app;
}

/** Adds CORS headers for pages of the allowed origins, and answers their preflight requests. */
const answerPreflight =
  ({ allowOrigins }: Services): RequestHandler =>
  (request, response, next) => {
    if (allowOrigins(request, response)) response.locals.pattern = 'preflight';
    else next();
  };

/** Stores the route of a request for the following stages, logs and metrics. */
const selectRoute =
  (route: Route): RequestHandler =>
  (_request, response, next) => {
    response.locals.route = route;
    response.locals.pattern = route.path;
    if (route.access !== 'open') response.setHeader('cache-control', 'no-store');
    next();
  };

const refuseMethod =
  (routes: readonly Route[]): RequestHandler =>
  (_request, response) => {
    response.locals.pattern = routes[0]?.path;
    const allow = routes
      .flatMap(({ method }) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]))
      .join(', ');
    throw new ProblemError('method-not-allowed', `Allowed here: ${allow}.`, { headers: { allow } });
  };

const refusePath: RequestHandler = () => {
  throw new ProblemError('route-not-found', 'There is no such endpoint. See /openapi.json.');
};

/**
 * Counts a request against the limits of its owner: connections, rate, and concurrent requests. The
 * request holds a permit until its response ends. Response headers state the remaining rate.
 */
const limitOwner =
  ({ connections, rateLimits, loadShedder }: Services, route: Route): RequestHandler =>
  (request, response, next) => {
    const { owner } = response.locals;
    if (owner !== undefined) {
      connections.attribute(request.socket, { owner });
      const headers = rateLimits.request(owner, kindOf(route));
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      response.locals.leave = loadShedder.enter(owner, kindOf(route));
    }
    next();
  };

/**
 * Assigns each request its id. After the request, the stage counts it, logs it, and records a write
 * or a refusal in the audit log: one line with who, what, from where and the outcome.
 */
function accessLog({
  logger,
  audit,
  refusals,
  metrics,
  clock,
  proxies,
}: {
  readonly logger: Logger;
  readonly audit: Audit;
  readonly refusals: Refusals;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly proxies: TrustedProxies;
}): RequestHandler {
  return (request, response, next) => {
    const beganMs = clock.monotonic();
    // The address is read now, because the connection may end before the response does.
    response.locals.client = proxies.clientAddress(request);
    const requestId = requestIdOf(request);
    response.locals.requestId = requestId;
    response.setHeader('x-request-id', requestId);
    response.setHeader('x-content-type-options', 'nosniff');
    response.once('close', () => {
      response.locals.leave?.();
      const { route, pattern: label = 'unmatched', principal, target, problem } = response.locals;
      const seconds = (clock.monotonic() - beganMs) / 1000;
      // If the client has disconnected before its response, there is no status.
      const status = response.headersSent ? response.statusCode : 0;
      metrics.httpRequests.inc({ method: request.method, route: label, status: String(status) });
      metrics.httpSeconds.observe({ route: label }, seconds);
      if (logger.enabled('debug'))
        logger.debug('Request', {
          requestId,
          method: request.method,
          route: label,
          status,
          seconds,
        });
      const origin = originOf(response);
      const action = route?.operationId ?? label;
      const who = principal && holderOf(principal);
      // A page that refuses a sign-in is no problem, and has a line of its own.
      if (problem !== undefined)
        refusals.record({ ...origin, ...who, action, status, outcome: problem });
      if (route !== undefined && who !== undefined && route.method !== 'get') {
        const outcome = problem ?? (status === 0 ? 'client-gone' : 'ok');
        audit('Write', { ...origin, ...who, action, target, status, outcome });
      }
    });
    next();
  };
}
