import type { GatewayOptions } from '../gateway-options.ts';
import type { Services } from '../services.ts';
import { quotaRecord } from '../v1/quota-record.ts';
import { ResponseCache } from '../v1/response-cache.ts';
import { OwnRecords } from './own-records.ts';
import { OwnerHubs } from './owner-hubs.ts';
import { Staleness } from './staleness.ts';

/** State that the streams of one gateway share, and the texts of records, which reads use too. */
export type LiveState = ReturnType<typeof createLiveState>;

export function createLiveState(
  services: Services,
  { caches, liveStreams = {} }: Pick<GatewayOptions, 'caches' | 'liveStreams'>,
) {
  const { namespace, lookup, exposure, clock, logger, random, scheduler } = services;
  const responses = new ResponseCache(services);
  const hubs = new OwnerHubs({
    ...{ caches, namespace, lookup, clock, logger, random },
    recordsOf: (owner) =>
      new OwnRecords({
        ...{ owner, lookup, exposure, responses },
        quota: (whose) => quotaRecord(services, whose),
      }),
    charge: (owner, work) => scheduler.now(owner, work),
    memory: liveStreams,
  });
  const { conversations, sandboxes } = caches;
  const staleness = new Staleness({ caches: [conversations, sandboxes], clock });
  return { responses, hubs, staleness };
}
