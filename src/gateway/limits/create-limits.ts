import type { Logger } from '@conversation-operator/base/logger';
import { Connections } from '@conversation-operator/http/limits/connections';
import type { TrustedProxies } from '@conversation-operator/http/limits/client-address';
import { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import { LoadShedder } from '@conversation-operator/http/limits/load-shedder';
import { RateLimits } from '@conversation-operator/http/limits/rate-limits';
import { SlowReaderGuard } from '@conversation-operator/http/limits/slow-clients';
import type { GatewayOptions } from '../gateway-options.ts';
import { newPool, type PoolName, type PoolSize } from './pools.ts';

/** Part of the requests that may be writes. */
const writesShare = 3 / 4;

/** Makes the limits that all requests of one gateway share. */
export function createLimits(
  options: GatewayOptions,
  { logger, proxies }: { readonly logger: Logger; readonly proxies: TrustedProxies },
) {
  const { clock, metrics } = options;
  const pool = (name: PoolName, changes: Partial<PoolSize> = {}) =>
    newPool(name, clock, { ...changes, ...options.pools?.[name] });
  const maxUnderWay = options.load?.maxUnderWay || Infinity;
  return {
    pool,
    slowReaders: new SlowReaderGuard(),
    scheduler: new FairScheduler({ clock }),
    rateLimits: new RateLimits({ limits: options.rateLimits ?? {}, clock, metrics, logger }),
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
