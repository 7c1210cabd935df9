import { AsyncLocalStorage } from 'node:async_hooks';
import { defaultTimeouts } from '@conversation-operator/http/server/http-server';
import { defaultForwardingLimits } from '@conversation-operator/http/proxy/tunnel';
import type { Logger } from '@conversation-operator/base/logger';
import { Connections } from '@conversation-operator/http/limits/connections';
import type { TrustedProxies } from '@conversation-operator/http/limits/client-address';
import { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import { LoadShedder } from '@conversation-operator/http/limits/load-shedder';
import { RateLimits } from '@conversation-operator/http/limits/rate-limits';
import { SlowReaderGuard } from '@conversation-operator/http/limits/slow-clients';
import type { GatewayOptions } from '../gateway-options.ts';
import { newPool, sizeOf, type PoolName, type PoolSize } from './pools.ts';
import type { CallOptions, KubeClient } from '@conversation-operator/kube/client';
import { InterceptedClient, type ClientCall } from '@conversation-operator/kube/intercepted-client';
import type { Shares } from '@conversation-operator/base/shares';
import { conversations } from '../../resources/conversation.ts';

const keylessShare = 1 / 8;
const writesShare = 3 / 4;

/** Creates the limits that all requests of one gateway share. */
export function createLimits(
  options: GatewayOptions,
  {
    logger,
    proxies,
    bytesOf,
  }: {
    readonly logger: Logger;
    readonly proxies: TrustedProxies;
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
    currentOwner,
    /** Client of the API server for the requests of owners. */
    client: fairClient({
      client: options.client,
      owner: () => currentOwner.getStore(),
      bytesOf,
      rateLimits,
      scheduler,
      places: pool('apiCalls'),
    }),
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

interface FairClientOptions {
  readonly client: KubeClient;
  /** Owner of a call's request; undefined for the gateway's own calls, which never wait. */
  readonly owner: () => string | undefined;
  /** Size of a stored conversation in bytes; 0 if the size is unknown. */
  readonly bytesOf: (conversationName: string) => number;
  readonly rateLimits: Pick<RateLimits, 'read' | 'written'>;
  readonly scheduler: Pick<FairScheduler, 'run' | 'chargeBytes'>;
  /** Semaphore of concurrent calls. */
  readonly places: Shares;
}

/** Object bytes for which a call takes one more permit, because large objects take longer. */
const bytesPerPlace = 256 * 1024;
/** Maximum permits of one call. */
const maxPlaces = 6;
/** Bytes that every call costs its owner, in addition to the bytes of a known object. */
const smallResponseBytes = 32 * 1024;

/**
 * A client of the API server for the requests of owners. The client has few connections, and a call
 * that waits for a connection delays all later calls. Owners are served round robin, so that an
 * owner with many calls only delays its own calls.
 */
function fairClient({
  client,
  owner: ownerOf,
  bytesOf,
  rateLimits,
  scheduler,
  places,
}: FairClientOptions): KubeClient {
  return new InterceptedClient(
    client,
    async <R>(call: ClientCall, { signal }: CallOptions, run: () => Promise<R>): Promise<R> => {
      const owner = ownerOf();
      if (owner === undefined) return run();
      const isWrite = call.verb !== 'get' && call.verb !== 'list';
      const name = call.verb === 'delete' ? undefined : call.name;
      const bytes =
        call.plural === conversations.plural && name !== undefined
          ? bytesOf(name)
          : call.verb === 'create'
            ? textLengthOf(call.object)
            : 0;
      if (!isWrite) rateLimits.read(owner, bytes);
      // The size of a created object is already counted as the size of the request body.
      else if (name !== undefined) {
        rateLimits.written(owner, bytes);
        scheduler.chargeBytes(owner, bytes);
      }
      const units = Math.min(maxPlaces, 1 + Math.floor(bytes / bytesPerPlace));
      const release = await places.wait({ owner }, { units, signal });
      try {
        return await scheduler.run(owner, run);
      } finally {
        release();
        scheduler.chargeBytes(owner, smallResponseBytes);
        // A read object counts twice, because the response to the client contains it again.
        if (!isWrite) scheduler.chargeBytes(owner, 2 * bytes);
      }
    },
  );
}

/** Total length of all texts in a value, in characters. */
function textLengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  let length = 0;
  for (const part of Object.values(value)) length += textLengthOf(part);
  return length;
}
