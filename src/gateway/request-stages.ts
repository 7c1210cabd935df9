import express, { type Express, type RequestHandler } from 'express';
import type { Route } from './http/route.ts';
import { uiPages } from './pages/ui.ts';
import type { Services } from './services.ts';
import { accessLog } from './stages/access-log.ts';
import { answerPreflight } from './stages/answer-preflight.ts';
import { authenticate } from './stages/authenticate.ts';
import { handle } from './stages/handle.ts';
import { limitOwner } from './stages/limit-owner.ts';
import {
  announceShutdown,
  joinWithSandbox,
  limitAddress,
  limitAddressOfUpgrade,
  limitRequestTime,
  proxyToSandbox,
  shedLoad,
} from './stages/node-stages.ts';
import { parseBody, readBody } from './stages/read-body.ts';
import { respond, respondWithProblem } from './stages/respond.ts';
import { refuseMethod, refusePath, selectRoute } from './stages/select-route.ts';
import type { Stage, UpgradeStage } from './stages/stage.ts';
import { legacyInterface } from './v0/deprecation.ts';

/**
 * The way of a request through the gateway, stage by stage. `createHttpServer` has limited the
 * connections, read the head of the request and refused an ambiguous one. Requests for agents leave
 * at `proxyToSandbox`; the stages of these are in `proxy/proxy-http.ts`.
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

/**
 * The way of a WebSocket handshake; the stages behind `joinWithSandbox` are in
 * `proxy/proxy-websocket.ts`.
 */
export const upgradeStages = (services: Services): readonly UpgradeStage[] => [
  limitAddressOfUpgrade(services),
  joinWithSandbox(services),
];

/** The stages of a request for the service itself, up to its route. */
const serviceStages = (services: Services): readonly RequestHandler[] => [
  accessLog(services),
  answerPreflight(services),
];

/**
 * The stages of a request that has a route. Each stage passes what it has found to the next ones in
 * `response.locals`.
 */
const routeStages = (services: Services, route: Route): readonly RequestHandler[] => [
  selectRoute(route),
  ...(route.access === 'open' ? [] : [authenticate(services, route), limitOwner(services, route)]),
  ...(route.body === undefined ? [] : [readBody(services, route), parseBody(services)]),
  handle(services, route),
  respond(services, route),
];

/**
 * The service itself: its stages, and those of each route. A problem that one of them throws
 * becomes the response. Without `legacyApi`, the responses under /api/conversations are 410.
 */
export function createApp(
  services: Services,
  { routes, legacyApi }: { readonly routes: readonly Route[]; readonly legacyApi: boolean },
): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag').set('query parser', false);
  app.use(...serviceStages(services));
  app.use('/api/conversations', legacyInterface(services, legacyApi));
  // Paths without parameters come first, so that /search is never taken for an id, not even to
  // refuse its method.
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
