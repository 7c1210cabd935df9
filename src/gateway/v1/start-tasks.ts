import { conversationIdOfStartTask } from '../../resources/ids.ts';
import { keyRoute, type Route } from '../app/route.ts';
import type { Services } from '../app/services.ts';
import { countSchema, startTaskList, startTaskPage } from './answers.ts';
import { refuseTooMany } from './fields.ts';
import { taskOf } from './records.ts';
import { idsQuery, startTaskFilters, startTaskSearch } from './schemas.ts';
import { filterStartTasks, searchConversations } from './search.ts';

const base = '/api/v1/app-conversations/start-tasks';
const tag = 'start tasks';

export const startTaskRoutes = (services: Services): readonly Route[] => [
  keyRoute({
    method: 'get',
    path: base,
    operationId: 'getStartTasks',
    tag,
    summary: 'Start tasks by id, in the order asked; unknown ones are left out',
    query: idsQuery,
    answers: { 200: startTaskList },
    problems: ['too-many-ids'],
    handle: async ({ owner, query }) => {
      refuseTooMany(query.ids);
      const found = await services.records.conversations(owner, query.ids.map(conversationIdOfStartTask));
      return { json: found.filter((conversation) => conversation !== undefined).map((conversation) => taskOf(services, conversation)) };
    },
  }),
  keyRoute({
    method: 'get',
    path: `${base}/search`,
    operationId: 'searchStartTasks',
    tag,
    summary: 'Start tasks page by page, newest first',
    query: startTaskSearch,
    answers: { 200: startTaskPage },
    handle: ({ owner, query: { sort_order, limit, page_id, ...filters } }) => {
      const matching = filterStartTasks(services.records.conversationsOf(owner), filters);
      const { items, next_page_id } = searchConversations(matching, { of: 'start-tasks', sort_order, limit, page_id });
      return { json: { items: items.map((conversation) => taskOf(services, conversation)), next_page_id } };
    },
  }),
  keyRoute({
    method: 'get',
    path: `${base}/count`,
    operationId: 'countStartTasks',
    tag,
    summary: 'How many start tasks a search would find',
    query: startTaskFilters,
    answers: { 200: countSchema },
    handle: ({ owner, query }) => ({ json: filterStartTasks(services.records.conversationsOf(owner), query).length }),
  }),
];
