import { conversationIdOfStartTask } from '../../resources/ids.ts';
import type { Route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { countSchema, pageFrame } from '../presenters/schemas.ts';
import { startTaskList, startTaskPage } from '../presenters/start-task.ts';
import { refuseTooMany } from './fields.ts';
import { idsQuery, startTaskFilters, startTaskSearch } from './schemas.ts';
import { startTaskFilter, type ConversationSearch } from './search.ts';
import { StartTaskResponses } from './start-task-responses.ts';
import { endpoints } from './endpoints.ts';

const base = '/api/v1/app-conversations/start-tasks';
const { get } = endpoints('start tasks');

export const startTaskRoutes = (
  services: Services,
  search: ConversationSearch,
): readonly Route[] => {
  const responses = new StartTaskResponses(services);
  return [
    get(base, 'getStartTasks', {
      summary: 'Start tasks by id, in the order asked; unknown ones are left out',
      query: idsQuery,
      responses: { 200: startTaskList },
      problems: ['too-many-ids'],
      handle: async ({ owner, query, response }) => {
        refuseTooMany(query.ids);
        const ids = query.ids.map(conversationIdOfStartTask);
        const found = await services.lookup.conversations(owner, ids);
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
        const { items, next_page_id } = search.page(services.lookup.conversationsOf(owner), wanted);
        return responses.list(owner, items, response, pageFrame(next_page_id));
      },
    }),
    get(`${base}/count`, 'countStartTasks', {
      summary: 'How many start tasks a search would find',
      query: startTaskFilters,
      responses: { 200: countSchema },
      handle: ({ owner, query }) => ({
        json: services.lookup.conversationsOf(owner).filter(startTaskFilter(query)).length,
      }),
    }),
  ];
};
