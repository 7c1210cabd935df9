import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import express from 'express';
import { AgentEvents } from '../agent/events.ts';
import { sleep } from '@conversation-operator/kube/clock';
import { defaultTimeouts, limitRequestTime } from './http/client-timeouts.ts';
import { CurrentOwner } from './http/current-owner.ts';
import { cors } from './stages/cors.ts';
import { healthRoutes } from './v1/health.ts';
import { LastResponses } from './http/last-responses.ts';
import { OpenStreams } from './http/open-streams.ts';
import { requestIdOf, requestScope } from './stages/access-log.ts';
import type { Route } from './http/route.ts';
import { addRoutes } from './http/router.ts';
import { sendProblem, refuseConnection } from './http/send-problem.ts';
import { closeServer, createHttpServer, listenOn } from './http/server.ts';
import type { Services } from './services.ts';
import { Authenticator } from './auth/authenticate.ts';
import { Disclosures } from './auth/disclosures.ts';
import { KeyRing } from './auth/key-ring.ts';
import { KeyUse } from './auth/key-use.ts';
import { ObjectFeed } from './lookup/object-feed.ts';
import { StorageCaps } from './lookup/storage-caps.ts';
import { StoredTotals } from './lookup/stored-totals.ts';
import { ResourceLookup } from './lookup/resource-lookup.ts';
import { StartTextReader } from './lookup/start-texts.ts';
import { typedNames } from './git/typed-names.ts';
import { conversations } from '../resources/conversation.ts';
import { defaultTemplateName } from '../resources/sandbox-template.ts';
import { AddressConnections } from './limits/address-connections.ts';
import { AgentReads } from './limits/agent-reads.ts';
import { clientAddressBehind } from './limits/client-address.ts';
import { FairClient } from './limits/fair-client.ts';
import { LoadShedder } from './limits/load-shedder.ts';
import { OwnerConnections } from './limits/owner-connections.ts';
import { RateLimits } from './limits/rate-limits.ts';
import { bodyShares } from './limits/body-shares.ts';
import { FairScheduler } from './limits/fair-scheduler.ts';
import { SlowReaderGuard } from './limits/slow-reader-guard.ts';
import { openApiRoutes } from './openapi/route.ts';
import { conversationPage } from './pages/conversation.ts';
import { AgentAccess } from './proxy/agent-access.ts';
import { isWebSocketRequest } from './proxy/websocket-handshake.ts';
import { legacyRoutes } from './v0/conversations.ts';
import { legacyInterface } from './v0/deprecation.ts';
import { unsupportedRoutes } from './v1/unsupported.ts';
import { accountRoutes } from './v1/account.ts';
import { conversationRoutes } from './v1/conversations.ts';
import { eventRoutes } from './v1/events.ts';
import { gitRoutes } from './v1/git.ts';
import { keyRoutes } from './v1/keys.ts';
import { quotaRoutes } from './v1/quota.ts';
import { ResponseCache } from './v1/response-cache.ts';
import { sandboxSpecRoutes } from './v1/sandbox-specs.ts';
import { sandboxSettingsRoutes } from './v1/sandbox-settings.ts';
import { sandboxRoutes } from './v1/sandboxes.ts';
import { ConversationSearch } from './v1/search.ts';
import { settingsRoutes } from './v1/settings.ts';
import { startTaskRoutes } from './v1/start-tasks.ts';
import { StartTaskResponses } from './v1/start-task-responses.ts';
import type { GatewayOptions } from './gateway-options.ts';

export type { GatewayOptions };

export interface Gateway {
  /** Rejects with a message for people when it can't. */
  listen(): Promise<{ readonly port: number }>;
  /** In good order: /ready says no, streams are closed properly, requests under way end. */
  close(): Promise<void>;
  /** Every endpoint, as the OpenAPI document is made of them. */
  readonly routes: readonly Route[];
}

/** Between the end of streams and the end of listening. */
const lastCallMs = 500;

/** What is refused before anything else is spent on it when there is too much to do. Preflights and pages are not, nor what looks at health. */
const needsKey = ({ method, url }: IncomingMessage): boolean => method !== 'OPTIONS' && url?.startsWith('/api/') === true;

/** The REST service. It holds no state: each request becomes reads of cached resources and writes of resources. */
export function createGateway(options: GatewayOptions): Gateway {
  const { namespace, caches, clock, metrics, version, random = randomBytes, drainMs = 0, graceMs = 5000 } = options;
  const logger = options.logger.child({ component: 'gateway' });
  let port = options.port;
  const publicUrl = () => (options.publicUrl ?? `http://${options.host}:${port}`).replace(/\/+$/, '');
  let closing: Promise<void> | undefined;
  const isSynced = () => Object.values(caches).every((cache: { readonly hasSynced: boolean }) => cache.hasSynced);
  const feeds = {
    conversations: new ObjectFeed({ cache: caches.conversations, clock, namespace }),
    sandboxes: new ObjectFeed({ cache: caches.sandboxes, clock, namespace }),
    apiKeys: new ObjectFeed({ cache: caches.apiKeys, clock, namespace }),
  };
  const { gitHosts = {} } = options;
  const git = options.gitDirectory ?? typedNames(gitHosts);
  const streams = new OpenStreams(options.streams);
  const waiting = new SlowReaderGuard();
  const scheduler = new FairScheduler({ clock });
  const lastAnswers = new LastResponses();
  const clientAddress = clientAddressBehind(options.trustedProxies ?? []);
  const events = new AgentEvents();
  const ownerConnections = new OwnerConnections({
    max: options.maxConnections ?? 0,
    trustedProxies: options.trustedProxies ?? [],
    clientAddress,
  });
  const limits = new RateLimits({ limits: options.rateLimits ?? {}, clock, metrics, logger });
  const totals = new StoredTotals({ caches, namespace, clock });
  const currentOwner = new CurrentOwner();
  const client = new FairClient({
    client: options.client,
    owner: () => currentOwner.name,
    onCall: (owner, { isWrite, plural, name, textLength = 0 }) => {
      const bytes = plural === conversations.plural && name !== undefined ? totals.bytesOf(name) : textLength;
      // What is created has come in a body, which counts already.
      if (!isWrite) limits.read(owner, bytes);
      else if (name !== undefined) limits.written(owner, bytes);
      return bytes;
    },
    scheduler,
    clock,
  });
  const ring = new KeyRing({ cache: caches.apiKeys, namespace, clock });
  const agents = new AgentAccess({
    sandboxes: caches.sandboxes,
    feed: feeds.sandboxes,
    namespace,
    keys: options.keys,
    ring,
    publicUrl,
    port: () => port,
    accept: (socket) => void server.emit('connection', socket),
    urlTemplate: options.sandboxUrlTemplate,
    loopbackOrigins: options.loopbackOrigins,
    limits: options.proxyLimits,
    connections: ownerConnections,
    waiting,
    scheduler,
    clientAddress,
    failedKey: (address) => limits.failedKey(address),
    clock,
    logger,
    metrics,
  });
  const lookup = new ResourceLookup({ client, namespace, caches });
  const services: Services = {
    client,
    namespace,
    clock,
    random,
    lookup,
    caps: new StorageCaps({ lookup, totals }),
    // Not the fair client: it bounds its reads by owner itself, also those of streams, which no request is behind.
    startTexts: new StartTextReader({ client: options.client, clock }),
    feeds,
    exposure: agents.exposure,
    streams,
    waiting,
    keys: options.keys,
    ring,
    maxKeyLifetimeMs: options.maxKeyLifetimeMs,
    publicUrl,
    events,
    agentReads: new AgentReads({ clock, limits: options.eventReads ?? {} }),
    git,
    templateName: options.defaultTemplateName ?? defaultTemplateName,
  };
  const texts = new ResponseCache(services);
  const search = new ConversationSearch();
  const began = clock.monotonic();
  const documented = [
    ...conversationRoutes(services, texts, search),
    ...startTaskRoutes(services, new StartTaskResponses(services), search),
    ...eventRoutes(services),
    ...sandboxRoutes(services),
    ...sandboxSettingsRoutes(services),
    ...sandboxSpecRoutes(services),
    ...accountRoutes,
    ...keyRoutes(services),
    ...quotaRoutes(services),
    ...unsupportedRoutes,
    ...settingsRoutes(services, gitHosts),
    ...gitRoutes({ hosts: gitHosts, directory: git }),
    ...legacyRoutes(services, search),
    conversationPage(),
    ...healthRoutes({
      isReady: () => closing === undefined && isSynced(),
      uptimeSeconds: () => (clock.monotonic() - began) / 1000,
      version,
    }),
  ];
  const routes = [...documented, ...openApiRoutes(documented, { version, publicUrl })];

  const app = express();
  app.disable('x-powered-by').disable('etag').set('query parser', false);
  const audit = options.audit ?? logger;
  app.use(requestScope({ logger, audit, metrics, clock, clientAddress }));
  const allowOrigins = cors(options.corsOrigins ?? []);
  app.use((request, response, next) => {
    if (allowOrigins(request, response)) response.locals.pattern = 'preflight';
    else next();
  });
  app.use('/api/conversations', legacyInterface({ enabled: options.legacyApi, publicUrl }));
  const load = new LoadShedder({ load: options.load ?? {}, clock, metrics });
  const authenticator = new Authenticator({ ring });
  const keyUse = new KeyUse({ client: options.client, cache: caches.apiKeys, namespace, clock, logger });
  addRoutes(app, {
    routes,
    authenticator,
    keyUse,
    disclosures: new Disclosures({ audit, clock, clientAddress }),
    isSynced,
    limits,
    connections: ownerConnections,
    load,
    bodies: bodyShares(clock),
    scheduler,
    currentOwner,
    waiting,
    clock,
    clientAddress,
    logger,
    opensSession: agents.opensSession,
  });
  const { requestMs } = { ...defaultTimeouts, ...options.timeouts };
  const connections = new AddressConnections({
    max: options.maxConnectionsPerAddress ?? 0,
    trustedProxies: options.trustedProxies ?? [],
    clientAddress,
    metrics,
    logger,
  });
  const server = createHttpServer(
    {
      request: (request, response) => {
        lastAnswers.add(response);
        const refusal = connections.refusal(request, response);
        if (refusal !== undefined) {
          sendProblem(response, refusal, requestIdOf(request.headers['x-request-id']));
          return;
        }
        const address = agents.find(request);
        if (address === undefined) {
          const overload = needsKey(request) ? load.refusal(request.method === 'GET' ? 'reads' : 'writes') : undefined;
          if (overload !== undefined) {
            // By then a small body has been read, and the connection may stay.
            queueMicrotask(() => {
              if (!allowOrigins(request, response)) sendProblem(response, overload, requestIdOf(request.headers['x-request-id']));
            });
            return;
          }
          limitRequestTime(request, response, clock, requestMs);
          app(request, response);
        } else if (!allowOrigins(request, response)) {
          agents.handle(request, response, address);
        }
      },
      wantsUpgrade: (request) => isWebSocketRequest(request) && agents.find(request) !== undefined,
      upgrade: (request, socket, head) => {
        const refusal = connections.refusal(request, socket);
        if (refusal === undefined) agents.upgrade(request, socket, head);
        else refuseConnection(socket, refusal, requestIdOf(request.headers['x-request-id']));
      },
    },
    {
      onDrop: () => metrics.droppedConnections.inc(),
      onConnection: (socket) => connections.admit(socket),
      ...(options.timeouts === undefined ? {} : { timeouts: options.timeouts }),
      ...(options.maxConnections === undefined ? {} : { maxConnections: options.maxConnections }),
    },
  );
  streams.add(() => agents.drain());

  const close = async () => {
    lastAnswers.begin();
    if (server.listening) await sleep(clock, drainMs);
    streams.close();
    // Whoever was streamed to has a connection that looks good for another request. It gets an answer, which says that it is not.
    if (server.listening) await sleep(clock, Math.min(drainMs, lastCallMs));
    await closeServer(server, clock, graceMs);
    load.stop();
    await Promise.all([agents.close(), events.close(), keyUse.stop()]);
    totals.close();
    ring.close();
    for (const feed of Object.values(feeds)) feed.close();
  };
  return {
    routes,
    listen: async () => {
      totals.open();
      for (const feed of Object.values(feeds)) feed.open();
      ring.open();
      try {
        ({ port } = await listenOn(server, options.host, options.port));
        await agents.open();
      } catch (error) {
        totals.close();
        ring.close();
        for (const feed of Object.values(feeds)) feed.close();
        throw error;
      }
      load.start();
      keyUse.start();
      return { port };
    },
    close: () => (closing ??= close()),
  };
}
