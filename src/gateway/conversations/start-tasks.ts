import type { Exposure } from '../presenters/sandbox.ts';
import type { StartTextReader } from '../lookup/start-texts.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { Clock } from '@conversation-operator/base/clock';
import { conversationIdOfStartTask } from '../../resources/ids.ts';
import { type Route, endpoints, type HandlerResult } from '../http/route.ts';
import { countSchema, pageFrame } from '../presenters/schemas.ts';
import { startTaskList, startTaskPage, startTaskRecord } from '../presenters/start-task.ts';
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

/**
 * Maximum stored bytes of what one answer is made of in memory; a larger one is sent task by task.
 */
const maxGatheredBytes = 262_144;
/** Maximum reads ahead of what is sent or gathered, for each answer. */
const readAhead = 4;
/** Dependencies of the routes of start tasks. */
interface StartTaskNeeds {
  readonly clock: Clock;
  readonly lookup: ResourceLookup;
  readonly exposure: Exposure;
  readonly startTexts: StartTextReader;
}

/**
 * Start tasks as JSON. The texts that their clients have sent with them are read where they are
 * needed.
 */
class StartTaskResponses {
  readonly #needs: StartTaskNeeds;
  readonly #large: Shares;

  constructor(needs: StartTaskNeeds) {
    this.#needs = needs;
    this.#large = newPool('taskLists', needs.clock);
  }

  async list(
    owner: string,
    conversations: readonly CachedConversation[],
    response: ServerResponse,
    frame: ListFrame = plainFrame,
  ): Promise<HandlerResult> {
    const bytes = conversations.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
    if (bytes <= maxGatheredBytes)
      return { jsonText: listText(frame, await Array.fromAsync(this.#texts(conversations))) };
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

  /** Returns the tasks in the given order; tasks that no longer exist are left out. */
  async *#texts(
    conversations: readonly CachedConversation[],
  ): AsyncGenerator<string, void, undefined> {
    const ahead: Promise<string | undefined>[] = [];
    for (const conversation of conversations) {
      const text = this.#text(conversation);
      // The text is awaited later, where its failure is handled.
      text.catch(() => undefined);
      ahead.push(text);
      if (ahead.length >= readAhead) yield* present(await ahead.shift());
    }
    for (const text of ahead) yield* present(await text);
  }

  async #text(conversation: CachedConversation): Promise<string | undefined> {
    const texts = await this.#needs.startTexts.of(conversation);
    if (texts === undefined) return undefined;
    const access = accessTo(this.#needs, conversation);
    return JSON.stringify(startTaskRecord(conversation, texts, access));
  }
}

const present = (text: string | undefined): readonly string[] => (text === undefined ? [] : [text]);

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
