import type { Route } from '../http/route.ts';
import type { ResponseCache } from '../presenters/conversation-records.ts';
import { conversationRoutes, interruptRoute } from './conversations.ts';
import { legacyRoutes } from './legacy.ts';
import { ConversationSearch } from './search.ts';
import { startTaskRoutes } from './start-tasks.ts';
import { lifeRoutes } from './timeline.ts';

type Dependencies = Parameters<typeof conversationRoutes>[0] & Parameters<typeof interruptRoute>[0];

/** Starts, records, messages and stories of conversations. */
export function routesOfConversations(
  needs: Dependencies,
  responses: ResponseCache,
): readonly Route[] {
  const search = new ConversationSearch();
  return [
    ...conversationRoutes(needs, search, responses),
    ...startTaskRoutes(needs, search),
    ...lifeRoutes(needs),
    interruptRoute(needs),
    ...legacyRoutes(needs, search),
  ];
}
