import { createPages } from './pages/create-pages.ts';
import { createReads } from './history/history-reads.ts';
import { createLimits } from './limits/create-limits.ts';
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { hostInUrl, isEveryAddress } from '@conversation-operator/base/addresses';
import { OpenStreams, LastResponses } from '@conversation-operator/http/server/listen';
import { trustedProxies } from '@conversation-operator/http/limits/client-address';
import { sealingUnder } from '../agent/sealing.ts';
import { defaultTemplateName } from '../resources/sandbox-template.ts';
import { Disclosures, SecretReads } from './auth/secret-reads.ts';
import { KeyRing } from './auth/key-ring.ts';
import { KeyUse } from './auth/key-use.ts';
import type { GatewayOptions } from './gateway-options.ts';
import { staticDirectory } from './git/directory.ts';
import { ObjectFeed } from './lookup/object-feed.ts';
import { ResourceLookup } from './lookup/resource-lookup.ts';
import { SecretReader } from './lookup/secret-reader.ts';
import { SettingsStore } from './lookup/settings-store.ts';
import { StartTextReader } from './lookup/start-texts.ts';
import { StorageCaps } from './lookup/storage-caps.ts';
import { Refusals } from './audit/refusals.ts';
import { createSignIn } from './sign-in/create-sign-in.ts';
import { AgentAccess } from './proxy/agent-access.ts';
import { createSharing } from './sharing/create-sharing.ts';

/** Host for URLs: 127.0.0.1 in place of a wildcard address, to which no browser connects. */
const reachable = (host: string): string => (isEveryAddress(host) ? '127.0.0.1' : hostInUrl(host));

/** The part of the gateway's server that other parts need. */
export interface Listener {
  readonly port: () => number;
  /** Passes the server a connection that another listener has accepted. */
  readonly accept: (socket: Socket) => void;
}

/** The result of `createServices`. Only the files that wire a gateway use all of it. */
export type Services = ReturnType<typeof createServices>;

/**
 * Creates the objects that the stages and the routes of one gateway share, for as long as the
 * gateway exists. Each of them lists its dependencies in its own file; `gateway.ts`, `routes.ts`
 * and `request-stages.ts` pass the objects on.
 */
export function createServices(options: GatewayOptions, { port, accept }: Listener) {
  const { namespace, caches, clock, metrics, keys, audit } = options;
  const logger = options.logger.child({ component: 'gateway' });
  const refusals = new Refusals({ audit, clock });
  const publicUrl = () =>
    (options.publicUrl ?? `http://${reachable(options.host)}:${port()}`).replace(/\/+$/, '');
  const proxies = trustedProxies(options.trustedProxies ?? []);
  const feeds = {
    conversations: new ObjectFeed({ cache: caches.conversations, clock, namespace }),
    sandboxes: new ObjectFeed({ cache: caches.sandboxes, clock, namespace }),
    apiKeys: new ObjectFeed({ cache: caches.apiKeys, clock, namespace }),
    ownerSettings: new ObjectFeed({ cache: caches.ownerSettings, clock, namespace }),
    handovers: new ObjectFeed({ cache: caches.handovers, clock, namespace }),
  };
  const { requireActivePerson = false } = options.signIn ?? {};
  const ring = new KeyRing({ cache: caches.apiKeys, namespace, clock, requireActivePerson });
  const caps = new StorageCaps({ caches, namespace, quotas: () => lookup.quotas() });
  const limits = createLimits(options, { logger, proxies, bytesOf: (name) => caps.bytesOf(name) });
  const { client, pool, slowReaders, scheduler, rateLimits, connections } = limits;
  const agents = new AgentAccess({
    sandboxes: caches.sandboxes,
    feed: feeds.sandboxes,
    namespace,
    keys,
    ring,
    publicUrl,
    port,
    accept,
    connections,
    slowReaders,
    scheduler,
    clock,
    logger,
    metrics,
    clientAddress: proxies.clientAddress,
    failedKey: (address) => rateLimits.failedKey(address),
    refused: (line) => refusals.record(line),
    urlTemplate: options.sandboxUrlTemplate,
    loopbackOrigins: options.loopbackOrigins,
    ...limits.forwarding,
  });
  const lookup = new ResourceLookup({ client, namespace, caches });
  const reads = createReads({
    lookup,
    client,
    clock,
    keys,
    places: { eventReads: pool('eventReads'), historyReads: pool('historyReads') },
    archives: options.history,
    firstByteMs: options.eventsFirstByteMs,
  });
  const random = options.random ?? randomBytes;
  const sealing = sealingUnder(keys);
  const { maxKeyLifetimeMs } = options;
  const signIn = createSignIn(options, { ring, lookup, feeds, logger, audit, publicUrl, random });
  const pages = createPages(options, {
    publicUrl,
    sandboxSources: () => agents.addressing.sources(),
    isSignedIn: (request) => signIn.sessions.holderOf(request) !== undefined,
  });
  const isSynced = () =>
    Object.values(caches).every((cache: { readonly hasSynced: boolean }) => cache.hasSynced);
  return {
    client,
    namespace,
    clock,
    logger,
    audit,
    refusals,
    metrics,
    keys,
    sealing,
    settings: new SettingsStore({
      client,
      namespace,
      cache: caches.ownerSettings,
      feed: feeds.ownerSettings,
    }),
    secrets: new SecretReader({ client, sealing, ...caches }),
    secretReads: new SecretReads({ audit, clock }),
    ring,
    feeds,
    publicUrl,
    proxies,
    lookup,
    agents,
    exposure: agents.exposure,
    currentOwner: limits.currentOwner,
    scheduler,
    slowReaders,
    rateLimits,
    connections,
    random,
    ...signIn,
    caches,
    serviceCaches: options.serviceCaches,
    metricsUrl: options.metricsUrl,
    isSynced,
    ...createSharing(options, { ...signIn, client, ring, lookup, rateLimits, audit, isSynced }),
    keyUse: new KeyUse({ client: options.client, cache: caches.apiKeys, namespace, clock, logger }),
    disclosures: new Disclosures({ audit, clock, clientAddress: proxies.clientAddress }),
    maxKeyLifetimeMs,
    caps,
    // `limits.client` would limit these reads twice, but not those of streams.
    startTexts: new StartTextReader({ client: options.client, places: pool('startTexts') }),
    streams: new OpenStreams(),
    places: {
      bodies: pool('bodyBytes'),
      startStreams: pool('startStreams'),
      liveStreams: pool('liveStreams'),
      sharedReads: pool('sharedReads'),
      snapshots: pool('snapshots'),
      downloads: pool('downloads'),
      textSearches: pool('textSearches'),
    },
    ...reads,
    ...pages,
    gitHosts: options.gitHosts ?? {},
    git: options.gitDirectory ?? staticDirectory(options.gitHosts ?? {}),
    pullRequests: options.pullRequests,
    templateName: options.defaultTemplateName ?? defaultTemplateName,
    loadShedder: limits.loadShedder,
    lastResponses: new LastResponses(),
    timeouts: limits.timeouts,
  };
}
