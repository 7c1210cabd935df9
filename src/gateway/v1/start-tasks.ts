import { conversationIdOfStartTask } from '../../resources/ids.ts';
import { pageFrame } from '../presenters/schemas.ts';
import { keyRoute, type Route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { countSchema, startTaskList, startTaskPage } from './response-schemas.ts';
import { refuseTooMany } from './fields.ts';
import { idsQuery, startTaskFilters, startTaskSearch } from './schemas.ts';
import { startTaskFilter, type ConversationSearch } from './search.ts';
import { StartTaskResponses } from './start-task-responses.ts';

const base = '/api/v1/app-conversations/start-tasks';
const tag = 'start tasks';

export const startTaskRoutes = (
  services: Services,
  search: ConversationSearch,
): readonly Route[] => {
  const responses = new StartTaskResponses(services);
  return [
    keyRoute({
      method: 'get',
      path: base,
      operationId: 'getStartTasks',
      tag,
      summary: 'Start tasks by id, in the order asked; unknown ones are left out',
      query: idsQuery,
      responses: { 200: startTaskList },
      problems: ['too-many-ids'],
      handle: async ({ owner, query, response }) => {
        refuseTooMany(query.ids);
        const found = await services.lookup.conversations(
          owner,
          query.ids.map(conversationIdOfStartTask),
        );
        return responses.list(
          owner,
          found.filter((conversation) => conversation !== undefined),
          response,
        );
      },
    }),
    keyRoute({
      method: 'get',
      path: `${base}/search`,
      operationId: 'searchStartTasks',
      tag,
      summary: 'Start tasks page by page, newest first',
      query: startTaskSearch,
      responses: { 200: startTaskPage },
      handle: ({ owner, query: { sort_order, limit, page_id, ...filters }, response }) => {
        const wanted = {
          of: 'start-tasks',
          matches: startTaskFilter(filters),
          sort_order,
          limit,
          page_id,
        } as const;
        const { items, next_page_id } = search.page(services.lookup.conversationsOf(owner), wanted);
        return responses.list(owner, items, response, pageFrame(next_page_id));
      },
    }),
    keyRoute({
      method: 'get',
      path: `${base}/count`,
      operationId: 'countStartTasks',
      tag,
      summary: 'How many start tasks a search would find',
      query: startTaskFilters,
      responses: { 200: countSchema },
      handle: ({ owner, query }) => ({
        json: services.lookup.conversationsOf(owner).filter(startTaskFilter(query)).length,
      }),
    }),
  ];
};
