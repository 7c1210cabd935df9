import { pipeline } from 'node:stream/promises';
import { Transform, type Readable } from 'node:stream';
import { z } from 'zod';
import type { Response } from 'express';
import { AgentError } from '../../agent/errors.ts';
import type { EventQuery } from '../../agent/events.ts';
import type { HistoryPage } from '../../archive/history.ts';
import { type HandlerResult, type Route, endpoints } from '../http/route.ts';
import type { Services } from '../services.ts';
import { countSchema, pageFrame, pageSchema } from '../presenters/schemas.ts';
import { askAgent } from './agent-reading.ts';
import { agentPageId, historyFilterOf, historyQueryOf } from './history-query.ts';
import { historyProblems, historyReading, readArchive } from './history-reading.ts';
import { refuseTooMany } from '../http/fields.ts';
import { agentEvents, archivedEvents, type EventTexts } from './events-by-id.ts';
import { listPieces, plainFrame } from '@conversation-operator/http/body/json-list';
import { compact } from '@conversation-operator/base/compact';
import {
  conversationParams,
  eventFilters,
  eventIds,
  eventSearch,
  type EventSearch,
} from './schemas.ts';

const base = '/api/v1/conversation/{id}/events';
const { get } = endpoints('events');
/** Maximum bytes of one page. */
const maxBytes = 32 * 1024 * 1024;

const eventSchema = z.looseObject({
  id: z.string().optional(),
  kind: z.string().optional().describe('For example MessageEvent, ActionEvent, ObservationEvent.'),
  timestamp: z.string().optional().describe("The agent's local time, without a zone."),
  source: z.string().optional(),
});
export const eventPage = pageSchema(eventSchema);
const eventList = z.array(eventSchema.nullable());

/**
 * The events of a conversation: those that its agent has stored, forwarded while the agent runs;
 * otherwise those of the archive, in the same order and the same pages.
 */
export function eventRoutes(services: Services): readonly Route[] {
  const { events } = services;
  const reading = historyReading(services);

  return [
    get(`${base}/search`, 'searchEvents', {
      summary:
        'What has happened in a conversation, page by page: from its agent while that runs, else from the archive',
      params: conversationParams,
      query: eventSearch,
      responses: { 200: eventPage },
      problems: historyProblems,
      handle: ({ query, ...call }) =>
        reading<HandlerResult>(call, {
          agent: async (agent, left) => {
            await askAgent(
              services,
              agent,
              left,
              ({ endpoint, id }, signal) => events.search(endpoint, id, queryOf(query), signal),
              (answer) => passOn(answer, call.response),
            );
            return undefined;
          },
          archive: async (conversation, left) => {
            const wanted = historyQueryOf(query);
            const page = await readArchive(services, conversation, left, (reader, state, signal) =>
              reader.search(state, wanted, signal),
            );
            return { jsonText: pageText(page) };
          },
          starting: { jsonText: pageText({ events: [], nextPageId: null }) },
        }),
    }),
    get(`${base}/count`, 'countEvents', {
      summary: 'How many events a search would find',
      params: conversationParams,
      query: eventFilters,
      responses: { 200: countSchema },
      problems: historyProblems,
      handle: async ({ query, ...call }) => ({
        json: await reading<number>(call, {
          agent: (agent, left) =>
            askAgent(
              services,
              agent,
              left,
              ({ endpoint, id }, signal) => events.count(endpoint, id, queryOf(query), signal),
              (count) => count,
            ),
          archive: (conversation, left) => {
            const filter = historyFilterOf(query);
            return readArchive(services, conversation, left, (reader, state, signal) =>
              reader.count(state, filter, signal),
            );
          },
          starting: 0,
        }),
      }),
    }),
    get(base, 'getEvents', {
      summary: 'Events by id, in the order asked; null for unknown ones',
      params: conversationParams,
      query: eventIds,
      responses: { 200: eventList },
      problems: ['too-many-ids', ...historyProblems, 'history-too-large'],
      handle: async ({ query: { id: ids }, ...call }) => {
        refuseTooMany(ids);
        const events = await reading<EventTexts>(call, {
          agent: (agent, left) => agentEvents(services, agent, left, ids),
          archive: (conversation, left) =>
            readArchive(services, conversation, left, (reader, state, signal) =>
              archivedEvents(reader.byIds(state, ids, signal), ids),
            ),
          starting: new Map(),
        });
        return {
          jsonText: listPieces(
            plainFrame,
            ids.map((id) => events.get(id) ?? unknown),
          ),
        };
      },
    }),
  ];
}

const unknown = Buffer.from('null');

const pageText = ({ events, nextPageId }: HistoryPage): Buffer[] =>
  listPieces(
    pageFrame(nextPageId),
    events.map(({ json }) => json),
  );

const queryOf = ({ kind, kind__eq, page_id, ...others }: Partial<EventSearch>): EventQuery =>
  compact({
    kind: kind__eq ?? kind,
    page_id: page_id === undefined ? undefined : agentPageId(page_id),
    ...others,
  });

/**
 * Forwards a page. Closes the connection where the page is too long or incomplete, because the
 * status has been sent already.
 */
async function passOn(page: Readable, response: Response): Promise<void> {
  let bytes = 0;
  const bounded = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      bytes += chunk.length;
      if (bytes > maxBytes)
        done(new AgentError('malformed', `The agent's answer is larger than ${maxBytes} bytes.`));
      else done(null, chunk);
    },
  });
  response.statusCode = 200;
  response.setHeader('content-type', 'application/json');
  try {
    await pipeline(page, bounded, response);
  } catch (error) {
    if (!response.destroyed) throw error;
  }
}
