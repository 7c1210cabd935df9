import type { Exposure } from '../presenters/sandbox.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { KeyRing, Principal } from '../auth/key-ring.ts';
import type { OpenStreams } from '@conversation-operator/http/server/listen';
import type { SlowReaderGuard } from '@conversation-operator/http/limits/slow-clients';
import type { Response } from 'express';
import { every, sleep, type Clock } from '@conversation-operator/base/clock';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { isStartOver } from '../../resources/conversation.ts';
import type { StartTexts, StartTextReader } from '../lookup/start-texts.ts';
import { accessTo } from '../presenters/conversation-records.ts';
import { startTaskAt, transitionsOf, type StartTask } from '../presenters/start-task.ts';

/**
 * Delay between two bytes: less than the idle time after which common proxies close a connection.
 */
const whiteSpaceMs = 15_000;
/** Delay before the texts of an element are read again. */
const rereadMs = 1_000;

const gone: StartTexts = { message: undefined, systemMessageSuffix: undefined, steps: [] };

/** Dependencies of the stream of a start. */
export interface StreamStartNeeds {
  readonly feeds: { readonly conversations: ObjectFeed<CachedConversation> };
  readonly clock: Clock;
  readonly lookup: ResourceLookup;
  readonly exposure: Exposure;
  readonly ring: KeyRing;
  readonly startTexts: StartTextReader;
  readonly streams: OpenStreams;
  readonly slowReaders: SlowReaderGuard;
}

/**
 * Writes a start as a JSON array, one element for each status it has had or will have, until READY
 * or ERROR. The stream reads the statuses from the list of transitions, and misses none however
 * many come at once. A client that disconnects ends the stream, but not the start; a shutdown ends
 * the array, and so does the end of the API key that has opened the stream.
 * @param texts The texts of the first element. A waiting stream holds no texts, because clients may
 * open many streams.
 */
export function streamStart(
  needs: StreamStartNeeds,
  response: Response,
  conversation: CachedConversation,
  { texts, principal }: { readonly texts: StartTexts; readonly principal: Principal },
): void {
  const { feeds, clock, lookup, ring, startTexts, streams, slowReaders } = needs;
  const { name, uid } = conversation.metadata;
  const { owner } = conversation.spec;
  let known = conversation;
  let isDeleted = false;
  let isWriting = false;
  let written = 0;
  let over = false;

  const isOver = () => over;
  const end = (closing = ']') => {
    if (over) return;
    over = true;
    stopListening();
    for (const forget of forgets) forget();
    timer.cancel();
    response.end(closing);
  };
  const write = (task: StartTask) => {
    response.write(`${written === 0 ? '' : ',\n'}${JSON.stringify(task)}`);
    written += 1;
    slowReaders.add(response, owner, () => response.destroy());
    if (isStartOver(task.status)) end();
  };
  /** The next element; undefined where there is none yet. */
  const next = (own: StartTexts): StartTask | undefined => {
    if (isDeleted) {
      const detail = 'The conversation was deleted before its start was over.';
      const time = new Date(clock.now()).toISOString();
      return {
        ...startTaskAt(known, own, { status: 'ERROR', time }, undefined),
        detail,
        error: detail,
      };
    }
    const transition = transitionsOf(known)[written];
    return transition && startTaskAt(known, own, transition, accessTo(needs, known));
  };
  const writeAll = async () => {
    if (isWriting) return;
    isWriting = true;
    while (!isOver() && (isDeleted || transitionsOf(known).length > written)) {
      try {
        const task = next((await startTexts.of(known)) ?? gone);
        if (task !== undefined && !isOver()) write(task);
      } catch {
        // The API server does not answer: the element is written as soon as it does.
        await sleep(clock, rereadMs);
      }
    }
    isWriting = false;
  };
  const follow = (object: CachedConversation | undefined) => {
    if (object?.metadata.uid !== uid || object.metadata.deletionTimestamp !== undefined)
      isDeleted = true;
    else known = object;
    void writeAll();
  };

  response.statusCode = 200;
  response.setHeader('content-type', 'application/json');
  response.setHeader('x-accel-buffering', 'no');
  response.write('[');
  const timer = every(clock, whiteSpaceMs, () => void response.write('\n'));
  const stopListening = feeds.conversations.on(name, follow);
  const forgets: (() => void)[] = [];
  response.once('close', () => end(''));
  const began = { status: 'WORKING', time: conversation.metadata.creationTimestamp } as const;
  write(startTaskAt(conversation, texts, began, accessTo(needs, conversation)));
  // Nothing is awaited between this read and the listening above, so no state is missed.
  const cached = lookup.cachedConversation(name);
  follow(cached?.metadata.uid === uid ? cached : conversation);
  // The stream is added last, because a shutdown that has begun ends it at once: the client has the
  // id of the start by then.
  const ended = () => end();
  forgets.push(streams.add(ended));
  forgets.push(ring.untilEnd(principal.keyName, principal.keyUid, ended));
  if (isOver()) for (const forget of forgets) forget();
}
