import type { FoundEvent } from '../../archive/history.ts';
import { snippetOf, textQueryOf, type TextQuery } from '../../archive/text-fold.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { findCondition } from '../../resources/conditions.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { plainText } from '../../resources/plain-text.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { invalidField } from '../errors/validation.ts';
import { type Route, endpoints } from '../http/route.ts';
import { Derived } from '../lookup/cache.ts';
import {
  decodeCursor,
  encodeCursor,
  creationOf,
  sortedBy,
  type Position,
} from '../paging/keyset.ts';
import { titleOf } from '../presenters/conversation.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { untilLeft } from './agent-reads.ts';
import type { HistoryReads } from './history-reads.ts';
import { z } from 'zod';
import type { Clock } from '@conversation-operator/base/clock';
import type { Shares } from '@conversation-operator/base/shares';
import { paging } from '../http/fields.ts';
import { countSchema, idSchema, nullableText, pageSchema } from '../presenters/schemas.ts';

const minLength = 2;
const maxLength = 200;

const textSearchQuery = z.object({
  q: z
    .string()
    .max(maxLength, `must have at most ${maxLength} characters`)
    .refine(
      (text) => text.trim().length >= minLength,
      `must have at least ${minLength} characters beside white space`,
    )
    .describe(
      `The text, of ${minLength} to ${maxLength} characters, as it is: no pattern. The case of letters and the kind of white space do not matter.`,
    ),
  ...paging,
});

const foundSchema = z.object({
  conversation_id: idSchema,
  title: z.string().describe('The title of the conversation.'),
  where: z.enum(['title', 'repository', 'branch', 'pull_request', 'event']),
  event_id: nullableText.describe('The event, where the text is in one; else null.'),
  kind: nullableText.describe('The kind of the event, such as MessageEvent.'),
  timestamp: nullableText.describe("The agent's local time of the event, without a zone."),
  snippet: z
    .string()
    .describe('The surroundings of the text: plain, in one line, with … where they are truncated.'),
});

const searchedSchema = z.object({
  conversations: countSchema.describe(
    'Conversations that this page and those before it have searched.',
  ),
  of: countSchema.describe('All conversations of the owner.'),
  incomplete: countSchema.describe(
    'Conversations that this page has searched without all of their events: the archive does not have them, or not yet, or can not be read.',
  ),
});

const textSearchPage = pageSchema(foundSchema).extend({ searched: searchedSchema });

export type Found = z.output<typeof foundSchema>;
export type TextSearchPage = z.output<typeof textSearchPage>;

const { get } = endpoints('conversations');

/** Milliseconds after which a page ends, so that a client can show the results so far. */
const pageMs = 500;
/** Concurrent reads of archives. A search begins with 2, as a frequent text soon fills a page. */
const [minAtOnce, maxAtOnce] = [2, 16];

/** The end of a page: in this conversation, all events from position `before` on are searched. */
interface Place {
  readonly key: string;
  readonly id: string;
  /** 0: all its events have been searched; Infinity: none of them has been searched. */
  readonly before: number;
}

interface FoundItem {
  readonly item: Found;
  /** The value of `before` for a page that ends after this item. */
  readonly rest: number;
}

interface Searched {
  readonly found: readonly FoundItem[];
  readonly before: number;
  /** Whether all events of the conversation could be searched. */
  readonly isWhole: boolean;
}

interface TextSearchNeeds {
  readonly history: HistoryReads;
  readonly lookup: ResourceLookup;
  readonly clock: Clock;
  readonly places: { readonly textSearches: Shares };
}

export function textSearchRoute(needs: TextSearchNeeds): Route {
  const { lookup, places } = needs;
  const newestFirst = new Derived((all: readonly CachedConversation[]) =>
    sortedBy(all, (conversation) => ({
      key: creationOf(conversation).key,
      id: conversationIdOf(conversation),
    })).toReversed(),
  );
  return get('/api/v1/search', 'searchText', {
    summary:
      'A text in the titles, repositories, branches, pull requests and archived events of your conversations, the newest first',
    query: textSearchQuery,
    responses: { 200: textSearchPage },
    problems: ['share-exceeded', 'archive-unavailable'],
    handle: ({ owner, query: { q, limit, page_id }, response }) =>
      untilLeft(response, async (left) => {
        const release = await places.textSearches.wait({ owner }, { signal: left });
        try {
          const placed = newestFirst.of(lookup.conversationsOf(owner));
          const all = placed.map(({ item }) => item);
          const query = textQueryOf(q);
          const order = `text/${query.text}`;
          const from = placeOf(order, page_id);
          const first =
            from === undefined ? 0 : placed.findIndex(({ position }) => isBehind(position, from));
          const page = await searchPage(needs, { all, first, from, query, limit, order, left });
          return { json: page };
        } finally {
          release();
        }
      }),
  });
}

interface PageSearch {
  /** All conversations of the owner, newest first. */
  readonly all: readonly CachedConversation[];
  /** Index in `all` of the first conversation to search; -1 if there is none. */
  readonly first: number;
  readonly from: Place | undefined;
  readonly query: TextQuery;
  readonly limit: number;
  readonly order: string;
  readonly left: AbortSignal;
}

async function searchPage(
  { history, clock }: TextSearchNeeds,
  { all, first, from, query, limit, order, left }: PageSearch,
): Promise<TextSearchPage> {
  const endsAt = clock.monotonic() + pageMs;
  const items: Found[] = [];
  let at = first === -1 ? all.length : first;
  let incomplete = 0;
  let atOnce = minAtOnce;
  let next: Place | undefined;
  while (at < all.length && next === undefined) {
    const room = limit - items.length;
    const batch = all.slice(at, at + atOnce);
    atOnce = Math.min(2 * atOnce, maxAtOnce);
    const results = await Promise.all(
      batch.map(async (conversation) => ({
        conversation,
        searched: await searchOne(history, conversation, {
          query,
          room,
          left,
          before: from?.id === conversationIdOf(conversation) ? from.before : undefined,
          isLate: () => clock.monotonic() >= endsAt,
        }),
      })),
    );
    for (const { conversation, searched } of results) {
      const { found, before, isWhole } = shortenedTo(limit - items.length, searched);
      items.push(...found.map(({ item }) => item));
      if (before === 0) {
        at++;
        if (!isWhole) incomplete++;
      }
      const isEnd = before > 0 || items.length >= limit || clock.monotonic() >= endsAt;
      if (!isEnd) continue;
      next = { key: creationOf(conversation).key, id: conversationIdOf(conversation), before };
      break;
    }
  }
  const isOver = at >= all.length;
  return {
    items,
    next_page_id: isOver || next === undefined ? null : pageIdOf(order, next),
    searched: { conversations: at, of: all.length, incomplete },
  };
}

/** The search result with only the first `room` items. */
function shortenedTo(room: number, searched: Searched): Searched {
  const last = searched.found[room - 1];
  if (last === undefined || searched.found.length === room) return searched;
  return { ...searched, found: searched.found.slice(0, room), before: last.rest };
}

interface OneSearch {
  readonly query: TextQuery;
  /** Number of items at which the search ends. */
  readonly room: number;
  /** Events from this position on have been searched. Undefined if none has been searched. */
  readonly before: number | undefined;
  readonly isLate: () => boolean;
  readonly left: AbortSignal;
}

/** Searches at least a part of a conversation. Ends at `room` items, or when `isLate()` is true. */
async function searchOne(
  history: HistoryReads,
  conversation: CachedConversation,
  { query, room, before, isLate, left }: OneSearch,
): Promise<Searched> {
  const base = { conversation_id: conversationIdOf(conversation), title: titleOf(conversation) };
  const inRecord = before === undefined ? foundInRecord(conversation, query) : undefined;
  const found: FoundItem[] =
    inRecord === undefined ? [] : [{ item: { ...base, ...inRecord }, rest: Infinity }];
  if (found.length >= room) return { found, before: Infinity, isWhole: true };
  const isWhole = history.readsArchives && hasAllEvents(conversation);
  if (!history.readsArchives || conversation.status?.archive?.head === undefined)
    return { found, before: 0, isWhole };
  let rest = before ?? Infinity;
  try {
    await history.archive(conversation, left, async (reader, state, signal) => {
      for await (const part of reader.find(state, query, rest, signal)) {
        for (const event of part.found)
          found.push({ item: { ...base, ...eventItem(event) }, rest: event.position });
        rest = part.from;
        if (found.length >= room || isLate()) return;
      }
      rest = 0;
    });
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return { found, before: 0, isWhole: false };
  }
  return { found, before: rest, isWhole };
}

type FoundPlace = Omit<Found, 'conversation_id' | 'title'>;

const eventItem = ({ id, kind, timestamp, snippet }: FoundEvent): FoundPlace => ({
  where: 'event',
  event_id: id,
  kind,
  timestamp: timestamp ?? null,
  snippet: shown(snippet),
});

/** The snippet without characters that change the direction of text. */
const shown = (snippet: string): string => plainText(snippet, snippet.length);

/** The first match in the record of a conversation. */
function foundInRecord(conversation: CachedConversation, query: TextQuery): FoundPlace | undefined {
  const { spec, status } = conversation;
  const { name = '', branch = '' } = spec.repository ?? {};
  const texts: readonly (readonly [Found['where'], string])[] = [
    ['title', titleOf(conversation)],
    ['repository', name],
    ['branch', branch],
    ...(status?.pullRequests ?? []).flatMap(({ number, title, head, url }) =>
      [`#${number} ${title}`, head, url].map((text) => ['pull_request', text] as const),
    ),
    ...(spec.prNumbers ?? []).map((number) => ['pull_request', `#${number}`] as const),
  ];
  for (const [where, text] of texts) {
    const snippet = snippetOf(text, query);
    if (snippet !== undefined)
      return { where, event_id: null, kind: null, timestamp: null, snippet: shown(snippet) };
  }
  return undefined;
}

/** Whether the archive has all events. A conversation whose start has failed has no events. */
const hasAllEvents = (conversation: CachedConversation): boolean =>
  findCondition(conversation.status?.conditions, 'Archived')?.reason === 'Complete' ||
  (startStatusOf(conversation) === 'ERROR' && conversation.status?.archive === undefined);

/** Whether the error means an unreadable or empty archive, which the search skips. */
const isUnreadable = (error: unknown): boolean =>
  error instanceof ProblemError &&
  (error.code === 'archive-empty' ||
    error.code === 'archive-expired' ||
    error.code === 'archive-damaged');

const placeId = /^([0-9a-f]{32})@([0-9]{1,10}|Infinity)$/;

const pageIdOf = (order: string, { key, id, before }: Place): string | null =>
  encodeCursor(order, { key, id: `${id}@${before}` });

function placeOf(order: string, pageId: string | undefined): Place | undefined {
  const position = decodeCursor(order, pageId);
  if (position === undefined) return undefined;
  const [, id, before] = placeId.exec(position.id) ?? [];
  if (id === undefined)
    throw invalidField(
      'query.page_id',
      'must be the next_page_id of an earlier answer to the same search',
    );
  return { key: position.key, id, before: Number(before) };
}

/** Whether a conversation comes after the end of the previous page, in the order newest first. */
const isBehind = ({ key, id }: Position, from: Place): boolean =>
  key < from.key || (key === from.key && (id < from.id || (id === from.id && from.before > 0)));
