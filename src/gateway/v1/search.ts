import type { Conversation } from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { decodeCursor, encodeCursor } from '../paging/cursor.ts';
import { pageOf } from '../paging/keyset.ts';
import { updatedAt } from '../views/conversation.ts';
import { titleOf } from '../views/title.ts';
import type { ConversationFilters, StartTaskFilters } from './schemas.ts';

const keys: Readonly<Record<string, (conversation: Conversation) => string>> = {
  CREATED_AT: ({ metadata }) => metadata.creationTimestamp,
  UPDATED_AT: updatedAt,
  TITLE: titleOf,
};

interface Search {
  /** Of which search a page is one: a cursor of another one is refused. */
  readonly of: 'conversations' | 'start-tasks';
  readonly sort_order: string;
  readonly limit: number;
  readonly page_id?: string | undefined;
}

/** One page of conversations in the order that is asked for, `<FIELD>` or `<FIELD>_DESC`. */
export function searchConversations(matching: Iterable<Conversation>, { of, sort_order, limit, page_id }: Search) {
  const order = `${of}/${sort_order}`;
  const keyOf = keys[sort_order.replace(/_DESC$/, '')] ?? (({ metadata }) => metadata.creationTimestamp);
  const { items, next } = pageOf({
    items: matching,
    positionOf: (conversation) => ({ key: keyOf(conversation), id: conversationIdOf(conversation) }),
    descending: sort_order.endsWith('_DESC'),
    limit,
    after: decodeCursor(order, page_id),
  });
  return { items, next_page_id: encodeCursor(order, next) };
}

const within = (text: string, from: number | undefined, to: number | undefined): boolean => {
  const milliseconds = Date.parse(text);
  return (from === undefined || milliseconds >= from) && (to === undefined || milliseconds < to);
};

export function filterConversations(all: readonly Conversation[], filters: ConversationFilters): readonly Conversation[] {
  if (Object.values(filters).every((value) => value === undefined)) return all;
  const { title__contains, created_at__gte, created_at__lt, updated_at__gte, updated_at__lt, sandbox_id__eq } = filters;
  const title = title__contains?.toLowerCase();
  const byUpdate = updated_at__gte !== undefined || updated_at__lt !== undefined;
  return all.filter(
    (conversation) =>
      (sandbox_id__eq === undefined || conversation.status?.sandboxName === sandbox_id__eq) &&
      within(conversation.metadata.creationTimestamp, created_at__gte, created_at__lt) &&
      (!byUpdate || within(updatedAt(conversation), updated_at__gte, updated_at__lt)) &&
      (title === undefined || titleOf(conversation).toLowerCase().includes(title)),
  );
}

export const filterStartTasks = (all: readonly Conversation[], filters: StartTaskFilters): readonly Conversation[] =>
  all.filter(
    (conversation) =>
      (filters.conversation_id__eq === undefined || conversationIdOf(conversation) === filters.conversation_id__eq) &&
      within(conversation.metadata.creationTimestamp, filters.created_at__gte, undefined),
  );
