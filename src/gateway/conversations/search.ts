import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { Derived } from '../lookup/cache.ts';
import { searchPage, sortedBy, type PageRequest, type Placed } from '../paging/keyset.ts';
import { titleOf, updatedAt } from '../presenters/conversation.ts';
import { z } from 'zod';
import { paging, time, uuid } from '../http/fields.ts';

const orders = (...fields: readonly string[]) =>
  fields.flatMap((field) => [field, `${field}_DESC`]);

export const conversationFilters = z.object({
  title__contains: z.string().optional(),
  created_at__gte: time().optional(),
  created_at__lt: time().optional(),
  updated_at__gte: time().optional(),
  updated_at__lt: time().optional(),
  sandbox_id__eq: z.string().optional(),
});
type ConversationFilters = z.output<typeof conversationFilters>;
export const conversationSearch = conversationFilters.extend({
  sort_order: z.enum(orders('CREATED_AT', 'UPDATED_AT', 'TITLE')).default('CREATED_AT_DESC'),
  ...paging,
});

export const startTaskFilters = z.object({
  conversation_id__eq: uuid().optional(),
  created_at__gte: time().optional(),
});
type StartTaskFilters = z.output<typeof startTaskFilters>;
export const startTaskSearch = startTaskFilters.extend({
  sort_order: z.enum(orders('CREATED_AT', 'UPDATED_AT')).default('CREATED_AT_DESC'),
  ...paging,
});

const createdAt = ({ metadata }: CachedConversation): string => metadata.creationTimestamp;

type Order = Derived<readonly CachedConversation[], readonly Placed<CachedConversation>[]>;

/** Caches each conversation's sort key, and an owner's sorted conversations, until they change. */
function orderBy(keyOf: (conversation: CachedConversation) => string): Order {
  const positions = new Derived((conversation: CachedConversation) => ({
    key: keyOf(conversation),
    id: conversationIdOf(conversation),
  }));
  return new Derived((all) => sortedBy(all, (conversation) => positions.of(conversation)));
}

interface Search extends Pick<PageRequest<CachedConversation>, 'limit' | 'matches'> {
  /** Name of the search, which the cursor contains: a cursor of another search is refused. */
  readonly of: 'conversations' | 'start-tasks';
  readonly sort_order: string;
  readonly page_id?: string | undefined;
}

export class ConversationSearch {
  readonly #byCreation = orderBy(createdAt);
  readonly #orders: Readonly<Record<string, Order>> = {
    UPDATED_AT: orderBy(updatedAt),
    TITLE: orderBy(titleOf),
  };

  /**
   * Returns one page in the requested order, `<FIELD>` or `<FIELD>_DESC`.
   * @param all The conversations of one owner. The caller passes the same array until one changes.
   */
  page(all: readonly CachedConversation[], { of, sort_order, ...request }: Search) {
    const sorted = this.#orders[sort_order.replace(/_DESC$/, '')] ?? this.#byCreation;
    return searchPage(sorted.of(all), {
      ...request,
      order: `${of}/${sort_order}`,
      descending: sort_order.endsWith('_DESC'),
    });
  }
}

const within = (text: string, from: number | undefined, to: number | undefined): boolean => {
  const milliseconds = Date.parse(text);
  return (from === undefined || milliseconds >= from) && (to === undefined || milliseconds < to);
};

/** The filter of a search; undefined if the request has no filter. */
export function conversationFilter(
  filters: ConversationFilters,
): ((conversation: CachedConversation) => boolean) | undefined {
  if (Object.values(filters).every((value) => value === undefined)) return undefined;
  const { created_at__gte, created_at__lt, updated_at__gte, updated_at__lt } = filters;
  const sandboxName = filters.sandbox_id__eq;
  const title = filters.title__contains?.toLowerCase();
  const byUpdate = updated_at__gte !== undefined || updated_at__lt !== undefined;
  return (conversation) =>
    (sandboxName === undefined || conversation.status?.sandboxName === sandboxName) &&
    within(conversation.metadata.creationTimestamp, created_at__gte, created_at__lt) &&
    (!byUpdate || within(updatedAt(conversation), updated_at__gte, updated_at__lt)) &&
    (title === undefined || titleOf(conversation).toLowerCase().includes(title));
}

export const startTaskFilter =
  (filters: StartTaskFilters) =>
  (conversation: CachedConversation): boolean =>
    (filters.conversation_id__eq === undefined ||
      conversationIdOf(conversation) === filters.conversation_id__eq) &&
    within(conversation.metadata.creationTimestamp, filters.created_at__gte, undefined);
