import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { Derived } from '../lookup/derived.ts';
import { searchPage } from '../paging/cursor.ts';
import { sortedBy, type Placed } from '../paging/keyset.ts';
import { updatedAt } from '../presenters/conversation.ts';
import { titleOf } from '../presenters/title.ts';
import type { ConversationFilters, StartTaskFilters } from './schemas.ts';

const createdAt = ({ metadata }: CachedConversation): string => metadata.creationTimestamp;
const keys: Readonly<Record<string, (conversation: CachedConversation) => string>> = {
  CREATED_AT: createdAt,
  UPDATED_AT: updatedAt,
  TITLE: titleOf,
};

type Order = Derived<readonly CachedConversation[], readonly Placed<CachedConversation>[]>;

/**
 * An order remembers the position of each conversation, and the sorted conversations of an owner,
 * until they change.
 */
function orderBy(keyOf: (conversation: CachedConversation) => string): Order {
  const positions = new Derived((conversation: CachedConversation) => ({
    key: keyOf(conversation),
    id: conversationIdOf(conversation),
  }));
  return new Derived((all) => sortedBy(all, (conversation) => positions.of(conversation)));
}

interface Search {
  /** The search that a page belongs to: a cursor of another one is refused. */
  readonly of: 'conversations' | 'start-tasks';
  /** The filter of the search; absent where all conversations match. */
  readonly matches?: ((conversation: CachedConversation) => boolean) | undefined;
  readonly sort_order: string;
  readonly limit: number;
  readonly page_id?: string | undefined;
}

/** Pages of conversations. */
export class ConversationSearch {
  readonly #orders = new Map<string, Order>();

  /**
   * Returns one page in the requested order, `<FIELD>` or `<FIELD>_DESC`.
   * @param all The conversations of one owner, as the same array as long as nothing in it has
   * changed.
   */
  page(all: readonly CachedConversation[], { of, sort_order, ...request }: Search) {
    return searchPage(this.#order(sort_order.replace(/_DESC$/, '')).of(all), {
      ...request,
      order: `${of}/${sort_order}`,
      descending: sort_order.endsWith('_DESC'),
    });
  }

  #order(field: string): Order {
    const known = this.#orders.get(field);
    if (known !== undefined) return known;
    const order = orderBy(keys[field] ?? createdAt);
    this.#orders.set(field, order);
    return order;
  }
}

const within = (text: string, from: number | undefined, to: number | undefined): boolean => {
  const milliseconds = Date.parse(text);
  return (from === undefined || milliseconds >= from) && (to === undefined || milliseconds < to);
};

/** The filter of a search; undefined where the request has no filter. */
export function conversationFilter(
  filters: ConversationFilters,
): ((conversation: CachedConversation) => boolean) | undefined {
  if (Object.values(filters).every((value) => value === undefined)) return undefined;
  const {
    title__contains,
    created_at__gte,
    created_at__lt,
    updated_at__gte,
    updated_at__lt,
    sandbox_id__eq,
  } = filters;
  const title = title__contains?.toLowerCase();
  const byUpdate = updated_at__gte !== undefined || updated_at__lt !== undefined;
  return (conversation) =>
    (sandbox_id__eq === undefined || conversation.status?.sandboxName === sandbox_id__eq) &&
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
