import { type Route, endpoints } from '../http/route.ts';
import { unavailable } from '../errors/problem-error.ts';
import type { Services } from '../services.ts';
import type { LiveState } from './live-state.ts';
import { contentType, LiveStream } from './live-stream.ts';
import { lastEventIdHeaders, lastEventIdQuery, streamResponse } from './schemas.ts';

const { get } = endpoints('stream');

/** The stream of everything of an owner. */
export const streamRoute = (
  services: Services,
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
      const { clock, logger, scheduler, slowReaders, metrics, streams, ring, places } = services;
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
