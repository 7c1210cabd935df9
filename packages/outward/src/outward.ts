import { Agent, Pool, type Dispatcher } from 'undici';
import { absoluteForm, directConnector, proxyConnector, tunnelConnector } from './connectors.ts';
import { proxyOf, withoutProxies, type Proxies } from './proxies.ts';
import type { Trust } from './trust-file.ts';

export interface PoolOptions {
  /** Maximum concurrent connections to one host; further requests wait. */
  readonly connections: number;
  readonly connectTimeoutMs: number;
  /** Maximum size of the body of a response, in bytes; default unlimited. */
  readonly maxResponseBytes?: number;
}

export interface Outward {
  /**
   * Returns a pool of connections, which the caller destroys. The only deadline of a request is its
   * signal. Requests that fail at a proxy reject with a `ProxyError`.
   */
  pool(options: PoolOptions): Dispatcher;
}

export interface OutwardOptions {
  readonly proxies: Proxies;
  readonly trust: Trust;
}

/** Maximum idle time of a connection, below the 5 s after which common servers close it. */
const keepAliveMs = 4000;

export function createOutward({ proxies, trust }: OutwardOptions): Outward {
  return {
    pool: ({ connections, connectTimeoutMs: timeoutMs, maxResponseBytes }) => {
      const direct = directConnector({ trust, timeoutMs });
      const poolOf = (given: string | URL, options: Pool.Options): Dispatcher => {
        const origin = new URL(given);
        const proxy = proxyOf(proxies, origin);
        if (proxy === undefined) return new Pool(origin, { ...options, connect: direct });
        if (origin.protocol === 'https:') {
          const connect = tunnelConnector({ proxy, direct, timeoutMs });
          return new Pool(origin, { ...options, connect });
        }
        const connect = proxyConnector(direct);
        return new Pool(proxy.origin, { ...options, connect }).compose(absoluteForm(origin, proxy));
      };
      return new Agent({
        connections,
        keepAliveTimeout: keepAliveMs,
        keepAliveMaxTimeout: keepAliveMs,
        headersTimeout: 0,
        bodyTimeout: 0,
        allowH2: false,
        ...(maxResponseBytes !== undefined && { maxResponseSize: maxResponseBytes }),
        factory: poolOf,
      });
    },
  };
}

export const directly: Outward = createOutward({
  proxies: withoutProxies,
  trust: { current: () => undefined },
});
