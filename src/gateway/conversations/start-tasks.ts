import type { Exposure } from '../presenters/sandbox.ts';
import type { StartTextReader, StartTexts } from '../lookup/start-texts.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { type Clock, every, sleep } from '@conversation-operator/base/clock';
import { conversationIdOfStartTask } from '../../resources/ids.ts';
import { type Route, endpoints, type HandlerResult } from '../http/route.ts';
import { countSchema, pageFrame } from '../presenters/schemas.ts';
import {
  startTaskList,
  startTaskPage,
  startTaskRecord,
  startTaskAt,
  transitionsOf,
  type StartTask,
} from '../presenters/start-task.ts';
import { refuseTooMany, idsQuery } from '../http/fields.ts';
import {
  startTaskFilter,
  startTaskFilters,
  startTaskSearch,
  type ConversationSearch,
} from './search.ts';
import type { ServerResponse } from 'node:http';
import {
  listText,
  plainFrame,
  sendList,
  type ListFrame,
} from '@conversation-operator/http/body/send-chunks';
import type { Shares } from '@conversation-operator/base/shares';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { newPool } from '../limits/pools.ts';
import { accessTo } from '../presenters/conversation-records.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { KeyRing } from '../auth/key-ring.ts';
import type { OpenStreams } from '@conversation-operator/http/server/listen';
import type { SlowReaderGuard } from '@conversation-operator/http/limits/slow-clients';
import type { Response } from 'express';
import { isStartOver } from '../../resources/conversation.ts';
import type { Principal } from '../auth/key-ring.ts';

/** Delay between two line feeds, which is below the idle timeout of common proxies. */
const whiteSpaceMs = 15_000;
/** Delay before a failed read of the texts is repeated. */
const rereadMs = 1_000;

const noTexts: StartTexts = { message: undefined, systemMessageSuffix: undefined, steps: [] };

export interface StartTaskNeeds {
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
 * Streams a start as a JSON array, with one element for each status up to READY or ERROR. The
 * elements come from `transitionsOf`, so no status is missed, however many come at once. The array
 * ends at a shutdown, and when the API key of the request becomes invalid. A client that
 * disconnects ends the stream, but not the start.
 * @param texts Texts of the first element. A waiting stream holds no texts, because clients may
 * open many streams.
 */
export function streamStart(
  needs: StartTaskNeeds,
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
  /** The next array element; undefined if the start has not reached a further status. */
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
        const task = next((await startTexts.of(known)) ?? noTexts);
        if (task !== undefined && !isOver()) write(task);
      } catch {
        // The API server does not answer. After this delay, the loop tries the same element again.
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
  // Nothing is awaited between this read and `feeds.conversations.on`, so no state is missed.
  const cached = lookup.cachedConversation(name);
  follow(cached?.metadata.uid === uid ? cached : conversation);
  // `streams.add` comes last, because it ends the stream at once during a shutdown. By then, the
  // first element with the id of the start is written.
  const ended = () => end();
  forgets.push(streams.add(ended));
  forgets.push(ring.untilEnd(principal.keyName, principal.keyUid, ended));
  if (isOver()) for (const forget of forgets) forget();
}

/**
 * Maximum stored bytes of the tasks in a response that is built in memory. A larger response, which
 * may have about 100 MiB, is sent task by task.
 */
const maxGatheredBytes = 262_144;

/** Sends start tasks with the texts that their clients have sent, which no cache contains. */
class StartTaskResponses {
  readonly #needs: StartTaskNeeds;
  readonly #large: Shares;

  constructor(needs: StartTaskNeeds) {
    this.#needs = needs;
    this.#large = newPool('taskLists', needs.clock);
  }

  /** Responds with the tasks in the given order; deleted tasks are omitted. */
  async list(
    owner: string,
    conversations: readonly CachedConversation[],
    response: ServerResponse,
    frame: ListFrame = plainFrame,
  ): Promise<HandlerResult> {
    const bytes = conversations.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
    if (bytes <= maxGatheredBytes) {
      const texts = await Promise.all(conversations.map((each) => this.#text(each)));
      return {
        jsonText: listText(
          frame,
          texts.filter((text) => text !== undefined),
        ),
      };
    }
    const gone = new AbortController();
    response.once('close', () => gone.abort(new Error('the client has gone')));
    const { clock } = this.#needs;
    const release = await this.#large.wait({ owner }, { signal: gone.signal });
    try {
      return { sentBytes: await sendList(response, frame, this.#texts(conversations), clock) };
    } finally {
      release();
    }
  }

  async *#texts(conversations: readonly CachedConversation[]): AsyncGenerator<string> {
    for (const conversation of conversations) {
      const text = await this.#text(conversation);
      if (text !== undefined) yield text;
    }
  }

  async #text(conversation: CachedConversation): Promise<string | undefined> {
    const texts = await this.#needs.startTexts.of(conversation);
    if (texts === undefined) return undefined;
    const access = accessTo(this.#needs, conversation);
    return JSON.stringify(startTaskRecord(conversation, texts, access));
  }
}

const base = '/api/v1/app-conversations/start-tasks';
const { get } = endpoints('start tasks');

export const startTaskRoutes = (
  needs: StartTaskNeeds,
  search: ConversationSearch,
): readonly Route[] => {
  const responses = new StartTaskResponses(needs);
  return [
    get(base, 'getStartTasks', {
      summary: 'Start tasks by id, in the order asked; unknown ones are left out',
      query: idsQuery,
      responses: { 200: startTaskList },
      problems: ['too-many-ids'],
      handle: async ({ owner, query, response }) => {
        refuseTooMany(query.ids);
        const ids = query.ids.map(conversationIdOfStartTask);
        const found = await needs.lookup.conversations(owner, ids);
        const present = found.filter((conversation) => conversation !== undefined);
        return responses.list(owner, present, response);
      },
    }),
    get(`${base}/search`, 'searchStartTasks', {
      summary: 'Start tasks page by page, newest first',
      query: startTaskSearch,
      responses: { 200: startTaskPage },
      handle: ({ owner, query, response }) => {
        const wanted = { of: 'start-tasks', matches: startTaskFilter(query), ...query } as const;
        const { items, next_page_id } = search.page(needs.lookup.conversationsOf(owner), wanted);
        return responses.list(owner, items, response, pageFrame(next_page_id));
      },
    }),
    get(`${base}/count`, 'countStartTasks', {
      summary: 'How many start tasks a search would find',
      query: startTaskFilters,
      responses: { 200: countSchema },
      handle: ({ owner, query }) => ({
        json: needs.lookup.conversationsOf(owner).filter(startTaskFilter(query)).length,
      }),
    }),
  ];
};
