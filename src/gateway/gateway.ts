import type { Server } from 'node:http';
import { sleep } from '@conversation-operator/base/clock';
import { createHttpServer } from '@conversation-operator/http/server/http-server';
import { closeServer, listenOn } from '@conversation-operator/http/server/listen';
import { isWebSocketRequest } from '@conversation-operator/http/proxy/upgrade';
import type { GatewayOptions } from './gateway-options.ts';
import type { Route } from './http/route.ts';
import { refusedResponse } from './http/send-bytes.ts';
import { appScript } from './pages/app.ts';
import { sessionKeyHeader } from './proxy/request-keys.ts';
import { createApp, requestStages, upgradeStages } from './request-stages.ts';
import { Resealer } from './resealer.ts';
import { routesOf } from './routes.ts';
import { createServices } from './services.ts';
import { createLiveState } from './stream/live-state.ts';

export type { GatewayOptions };

export interface Gateway {
  /** Rejects with a human-readable message when the gateway can not listen. */
  listen(): Promise<{ readonly port: number }>;
  /** Shuts down: /ready fails, streams are closed with an event, other requests may complete. */
  close(): Promise<void>;
  /** All endpoints, as the OpenAPI document shows them. */
  readonly routes: readonly Route[];
}

/** Delay before listening ends, in which clients of ended streams may send their next request. */
const lastCallMs = 2000;

/**
 * The REST service, which holds no state: each request becomes reads of cached resources and writes
 * of resources. `request-stages.ts` lists the stages of a request.
 */
export function createGateway(options: GatewayOptions): Gateway {
  const { clock, host, version, drainMs = 0, graceMs = 5000 } = options;
  let port = options.port;
  let closing: Promise<void> | undefined;
  const services = createServices(options, {
    port: () => port,
    accept: (socket) => void server.emit('connection', socket),
  });
  const { agents, streams, ring, caps, feeds, keyUse, loadShedder } = services;
  const beganMs = clock.monotonic();
  const live = createLiveState(services, options);
  const routes = routesOf(services, {
    health: {
      isReady: () => closing === undefined && services.isSynced(),
      uptimeSeconds: () => (clock.monotonic() - beganMs) / 1000,
      version,
    },
    live,
  });
  const stages = requestStages(
    services,
    createApp(services, {
      routes: [...routes, appScript(services.webFiles)],
      legacyApi: options.legacyApi,
    }),
  );
  const stagesOfUpgrade = upgradeStages(services);
  const server: Server = createHttpServer(
    {
      request: (request, response) => void stages.some((stage) => stage(request, response)),
      wantsUpgrade: (request) =>
        isWebSocketRequest(request) && agents.addressing.find(request) !== undefined,
      upgrade: (request, socket, head) =>
        void stagesOfUpgrade.some((stage) => stage(request, socket, head)),
      refuse: refusedResponse,
    },
    {
      connections: services.connections,
      singleHeaders: [sessionKeyHeader],
      timeouts: services.timeouts,
    },
  );
  streams.add(() => agents.drain());

  const resealer = new Resealer({
    clock,
    logger: services.logger,
    keys: services.keys,
    sealing: services.sealing,
    cache: services.caches.ownerSettings,
    namespace: services.namespace,
    settings: services.settings,
    delayMs: options.resealDelayMs,
  });
  const followers = [caps, ...Object.values(feeds), ring, live.hubs, live.staleness, resealer];
  const unfollow = () => {
    for (const follower of followers) follower.close();
  };
  const close = async () => {
    services.lastResponses.begin();
    if (server.listening) await sleep(clock, drainMs);
    streams.close();
    // In this delay, a client of a closed stream may send a request and gets `Connection: close`.
    if (server.listening) await sleep(clock, Math.min(drainMs, lastCallMs));
    await closeServer(server, clock, graceMs);
    loadShedder.stop();
    const { control, events, files } = services;
    const clients = [agents, events, files, control, services.identityProviders];
    await Promise.all([...clients.map((client) => client.close()), keyUse.stop()]);
    services.secretReads.close();
    services.refusals.close();
    services.openShares.close();
    unfollow();
    await resealer.idle();
  };
  return {
    routes,
    listen: async () => {
      for (const follower of followers) follower.open();
      try {
        ({ port } = await listenOn(server, { name: 'the gateway', host, port: options.port }));
        await agents.open();
      } catch (error) {
        unfollow();
        throw error;
      }
      loadShedder.start();
      keyUse.start();
      return { port };
    },
    close: () => (closing ??= close()),
  };
}
