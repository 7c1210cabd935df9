import { AsyncLocalStorage } from 'node:async_hooks';
import { defaultTimeouts } from '@conversation-operator/http/server/http-server';
import { defaultForwardingLimits } from '@conversation-operator/http/proxy/tunnel';
import { fairClient, type FairClientOptions } from './fair-client.ts';
import type { Logger } from '@conversation-operator/base/logger';
import { Connections } from '@conversation-operator/http/limits/connections';
import type { TrustedProxies } from '@conversation-operator/http/limits/client-address';
import { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import { LoadShedder } from '@conversation-operator/http/limits/load-shedder';
import { RateLimits } from '@conversation-operator/http/limits/rate-limits';
import { SlowReaderGuard } from '@conversation-operator/http/limits/slow-clients';
import type { GatewayOptions } from '../gateway-options.ts';
import { newPool, sizeOf, type PoolName, type PoolSize } from './pools.ts';

/** Part of the agents' requests that may have no key. */
const keylessShare = 1 / 8;
/** Part of the requests that may be writes. */
const writesShare = 3 / 4;

/** Makes the limits that all requests of one gateway share. */
export function createLimits(
  options: GatewayOptions,
  {
    logger,
    proxies,
    bytesOf,
  }: {
    readonly logger: Logger;
    readonly proxies: TrustedProxies;
    /** Stored bytes of a conversation. */
    readonly bytesOf: FairClientOptions['bytesOf'];
  },
) {
  const { clock, metrics } = options;
  const pool = (name: PoolName, changes: Partial<PoolSize> = {}) =>
    newPool(name, clock, { ...changes, ...options.pools?.[name] });
  const maxUnderWay = options.load?.maxUnderWay || Infinity;
  const scheduler = new FairScheduler({ clock });
  const rateLimits = new RateLimits({ limits: options.rateLimits ?? {}, clock, metrics, logger });
  const currentOwner = new AsyncLocalStorage<string>();
  const { perSandbox, total, ...forwarding } = {
    ...defaultForwardingLimits,
    ...sizeOf('agentRequests'),
    ...options.proxyLimits,
  };
  return {
    pool,
    slowReaders: new SlowReaderGuard(),
    scheduler,
    rateLimits,
    /** The owner of the request whose handler calls. */
    currentOwner,
    /** The calls of the API server that requests cause. */
    client: fairClient({
      client: options.client,
      owner: () => currentOwner.getStore(),
      bytesOf,
      rateLimits,
      scheduler,
      places: pool('apiCalls'),
    }),
    /** Limits of the requests that are forwarded to agents. */
    forwarding: {
      limits: forwarding,
      places: {
        connections: perSandbox,
        keyed: pool('agentRequests', { total, perSandbox }),
        keyless: pool('keylessAgentRequests', { total: Math.ceil(total * keylessShare) }),
      },
    },
    timeouts: { ...defaultTimeouts, ...options.timeouts },
    connections: new Connections({
      places: pool('connections', { total: options.maxConnections || Infinity }),
      perAddress: options.maxConnectionsPerAddress,
      proxies,
      metrics,
      logger,
    }),
    loadShedder: new LoadShedder({
      requests: pool('requests', { total: maxUnderWay }),
      writes: pool('writes', { total: maxUnderWay * writesShare }),
      maxDelayMs: options.load?.maxDelayMs,
      clock,
      metrics,
    }),
  };
}
