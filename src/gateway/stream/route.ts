import type { Shares } from '@conversation-operator/base/shares';
import type { KeyRing } from '../auth/key-ring.ts';
import type { OpenStreams } from '@conversation-operator/http/server/open-streams';
import type { SlowReaderGuard } from '@conversation-operator/http/limits/slow-reader-guard';
import type { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import type { Logger } from '@conversation-operator/base/logger';
import type { Clock } from '@conversation-operator/base/clock';
import type { Metrics } from '../../observability/metrics.ts';
import { type Route, endpoints } from '../http/route.ts';
import { unavailable } from '../errors/problem-error.ts';
import type { LiveState } from './live-state.ts';
import { contentType, LiveStream } from './live-stream.ts';
import { lastEventIdHeaders, lastEventIdQuery, streamResponse } from './schemas.ts';

const { get } = endpoints('stream');

/** What the stream needs. */
interface StreamNeeds {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly scheduler: FairScheduler;
  readonly slowReaders: SlowReaderGuard;
  readonly streams: OpenStreams;
  readonly ring: KeyRing;
  readonly places: { readonly liveStreams: Shares; readonly snapshots: Shares };
}

/** The stream of everything of an owner. */
export const streamRoute = (
  needs: StreamNeeds,
  { hubs, staleness }: Pick<LiveState, 'hubs' | 'staleness'>,
): Route =>
  get('/api/v1/stream', 'streamState', {
    summary:
      'Conversations, start tasks, sandboxes and the quota, and each of their changes as it happens',
    query: lastEventIdQuery,
    headers: lastEventIdHeaders,
    responses: { 200: streamResponse },
    mediaType: 'text/event-stream',
    problems: ['share-exceeded'],
    handle: ({ principal, owner, query, headers, response }) => {
      const { clock, logger, scheduler, slowReaders, metrics, streams, ring, places } = needs;
      const { keyName, keyUid } = principal;
      if (response.req.method === 'HEAD') {
        response.setHeader('content-type', contentType).end();
        return undefined;
      }
      if (staleness.isStale) throw unavailable();
      const forgets = [places.liveStreams.take({ owner, sandbox: keyUid })];
      const stream = new LiveStream({
        ...{ owner, response, hubs, clock, logger, scheduler, slowReaders, metrics },
        snapshots: places.snapshots,
        ended: () => {
          for (const forget of forgets) forget();
        },
      });
      stream.begin(headers['last-event-id'] ?? query.last_event_id);
      // A shutdown that has begun, or a key that has ended meanwhile, closes the stream at once.
      forgets.push(streams.add(() => stream.close('shutdown')));
      forgets.push(ring.untilEnd(keyName, keyUid, () => stream.close('key-invalid')));
      forgets.push(staleness.onStale(() => stream.close('stale')));
      if (stream.isOver) for (const forget of forgets) forget();
      return undefined;
    },
  });
