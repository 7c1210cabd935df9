import { pipeline } from 'node:stream/promises';
import { Transform, type Readable } from 'node:stream';
import { z } from 'zod';
import type { Response } from 'express';
import { AgentError } from '../../agent/errors.ts';
import {
  type AgentEvents,
  type EventQuery,
  liveCursor,
  liveSchema,
  type LiveActivity,
} from '../../agent/events.ts';
import type {
  HistoryPage,
  HistoryEvent,
  HistoryFilter,
  HistoryQuery,
} from '../../archive/history.ts';
import { type HandlerResult, type Route, endpoints } from '../http/route.ts';
import { countSchema, pageFrame, pageSchema } from '../presenters/schemas.ts';
import { type Agent, type AgentReads, agentProblems } from './agent-reads.ts';
import { historyProblems, type HistoryReads, type Ways } from './history-reads.ts';
import { refuseTooMany, conversationParams, paging, repeated, timeText } from '../http/fields.ts';
import { listPieces, plainFrame } from '@conversation-operator/http/body/send-chunks';
import { compact } from '@conversation-operator/base/compact';
import { idIn, maxIdLength } from '../../archive/agent-event.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { invalidField } from '../errors/validation.ts';

const eventKind = z
  .string()
  .regex(/^[A-Za-z0-9_.]{1,128}$/, 'must be a word')
  .optional();
export const eventFilters = z.object({
  kind: eventKind,
  kind__eq: eventKind.describe('The same as kind.'),
  source: z.enum(['agent', 'user', 'environment']).optional(),
  timestamp__gte: timeText().optional(),
  timestamp__lt: timeText().optional(),
});
export const eventSearch = eventFilters.extend({
  sort_order: z.enum(['TIMESTAMP', 'TIMESTAMP_DESC']).optional(),
  ...paging,
  page_id: z.string().min(1).max(256).optional().describe('next_page_id of the answer before.'),
});

const eventIds = z.object({ id: repeated(z.string().min(1).max(maxIdLength)) });

type EventSearch = z.output<typeof eventSearch>;

/** The JSON of events, by their ids. */
type EventTexts = ReadonlyMap<string, Buffer>;

const base = '/api/v1/conversation/{id}/events';
const { get } = endpoints('events');
/** Maximum bytes of a page that is forwarded from an agent. */
const maxPageBytes = 32 * 1024 * 1024;

const eventSchema = z.looseObject({
  id: z.string().optional(),
  kind: z.string().optional().describe('For example MessageEvent, ActionEvent, ObservationEvent.'),
  timestamp: z.string().optional().describe("The agent's local time, without a zone."),
  source: z.string().optional(),
});
export const eventPage = pageSchema(eventSchema);
const eventList = z.array(eventSchema.nullable());

export interface EventNeeds {
  readonly agentReads: AgentReads;
  readonly history: HistoryReads;
  readonly events: AgentEvents;
}

/**
 * The events of a conversation. The gateway forwards them from the agent while the agent runs, and
 * otherwise reads them from the archive. Both sources have the same order and the same pages.
 */
export function eventRoutes(needs: EventNeeds): readonly Route[] {
  const { agentReads, history, events } = needs;
  return [
    get(`${base}/search`, 'searchEvents', {
      summary:
        'What has happened in a conversation, page by page: from its agent while that runs, else from the archive',
      params: conversationParams,
      query: eventSearch,
      responses: { 200: eventPage },
      problems: historyProblems,
      handle: ({ query, ...call }) =>
        history.ofOwn<HandlerResult>(call, {
          agent: async (agent, left) => {
            await agentReads.ask(
              agent,
              left,
              ({ endpoint, id }, signal) =>
                events.search(endpoint, id, agentQueryOf(query), signal),
              (answer) => passOn(answer, call.response),
            );
            return 'sent';
          },
          archive: async (conversation, left) => {
            const wanted = archiveQueryOf(query);
            const page = await history.archive(conversation, left, (reader, state, signal) =>
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
        json: await history.ofOwn<number>(call, countingWays(needs, query)),
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
        const events = await history.ofOwn<EventTexts>(call, {
          agent: (agent, left) => agentEvents(needs, agent, left, ids),
          archive: (conversation, left) =>
            history.archive(conversation, left, (reader, state, signal) =>
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

/** How the events of a conversation are counted, by their source. */
export const countingWays = (
  { agentReads, history, events }: EventNeeds,
  query: Filters,
): Ways<number> => ({
  agent: (agent, left) =>
    agentReads.ask(
      agent,
      left,
      ({ endpoint, id }, signal) => events.count(endpoint, id, agentQueryOf(query), signal),
      (count) => count,
    ),
  archive: (conversation, left) => {
    const filter = historyFilterOf(query);
    return history.archive(conversation, left, (reader, state, signal) =>
      reader.count(state, filter, signal),
    );
  },
  starting: 0,
});

/** Maximum bytes of the events in a response to a request with ids. All of them are in memory. */
const maxBytes = 8 * 1024 * 1024;
/** Maximum concurrent reads of events by id, each of which has up to `maxBytes` in memory. */
const readsAtOnce = 2;

/**
 * Asks a running agent for events. Throws if the agent does not know the conversation, or returns
 * another event than the requested one, or more than `maxBytes`.
 */
const agentEvents = (
  { agentReads, events }: EventNeeds,
  agent: Agent,
  left: AbortSignal,
  ids: readonly string[],
): Promise<EventTexts> =>
  agentReads.ask(
    agent,
    left,
    async ({ endpoint, id: conversation }, signal) => {
      const answer = collected(ids);
      const read = async (event: string) => {
        const json = await events.event(endpoint, { conversation, event, maxBytes }, signal);
        if (json === undefined) return;
        if (idIn(json) !== event)
          throw new AgentError('malformed', 'The agent sends another event than was asked for.');
        answer.add(event, json);
      };
      const asked = [...new Set(ids)];
      for (let index = 0; index < asked.length; index += readsAtOnce)
        await Promise.all(asked.slice(index, index + readsAtOnce).map(read));
      // `count` throws for an unknown conversation, which here looks like an unknown event.
      if (answer.texts.size === 0) await events.count(endpoint, conversation, {}, signal);
      return answer.texts;
    },
    (texts) => texts,
  );

/** The JSON of archived events. Throws if they exceed `maxBytes`. */
async function archivedEvents(
  events: AsyncIterable<HistoryEvent>,
  ids: readonly string[],
): Promise<EventTexts> {
  const answer = collected(ids);
  for await (const { id, json } of events) answer.add(id, json);
  return answer.texts;
}

/** Collects events up to `maxBytes`. An event counts as often as the request names its id. */
function collected(ids: readonly string[]) {
  const times = new Map<string, number>();
  for (const id of ids) times.set(id, (times.get(id) ?? 0) + 1);
  const texts = new Map<string, Buffer>();
  let bytes = 0;
  return {
    texts,
    add: (id: string, json: Buffer) => {
      bytes += json.length * (times.get(id) ?? 1);
      if (bytes > maxBytes)
        throw new ProblemError(
          'history-too-large',
          `The events of these ids have more than ${maxBytes} bytes. Ask for fewer at once.`,
        );
      texts.set(id, json);
    },
  };
}

/** A `next_page_id` of the archive is the id of an event, followed by this position. */
const position = /@\d{1,10}$/;

/** The `page_id` for an agent: the id of the event, without the position. */
export const agentPageId = (pageId: string): string =>
  position.test(pageId) ? pageId.replace(position, '') : pageId;

const dateTime =
  /^(?<local>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?)(?:\.(?<fraction>\d{1,9}))?(?<offset>Z|[+ -]\d\d:?\d\d)?$/i;
/** Texts that sort before, and after, the time of any event. */
const [beforeAll, afterAll] = ['0', '9999-12-31T23:59:59.999999'];

/**
 * Converts the time of a query to the form in which an agent compares it with its events, so that
 * the archive finds the same events: the text of Python's `isoformat` in UTC, without a zone. All
 * agents use UTC, and drop digits after the microseconds. A plus sign may have become a space.
 * @param text A text that `timeText` accepts.
 */
export function archiveTime(text: string): string {
  const { local = '', fraction = '', offset = 'Z' } = dateTime.exec(text)?.groups ?? {};
  const time = local.length === 10 ? `${local}T00:00:00` : local.replace(' ', 'T');
  const ms = Date.parse(`${time}${offset.replace(' ', '+')}`);
  const inUtc = Number.isFinite(ms) ? new Date(ms).toISOString() : '';
  if (inUtc.startsWith('-') || inUtc === '') return beforeAll;
  if (inUtc.startsWith('+')) return afterAll;
  const microseconds = fraction.slice(0, 6).padEnd(6, '0');
  return `${inUtc.slice(0, 19)}${Number(microseconds) === 0 ? '' : `.${microseconds}`}`;
}

type Filters = Partial<EventSearch>;

/** The filter for the archive. Throws for `source`, which the archive does not store. */
export function historyFilterOf({
  kind,
  kind__eq: kindEq,
  source,
  timestamp__gte: from,
  timestamp__lt: before,
}: Filters): HistoryFilter {
  if (source !== undefined)
    throw invalidField('query.source', 'is a filter for agents whose sandbox runs alone');
  return {
    kind: kindEq ?? kind,
    from: from === undefined ? undefined : archiveTime(from),
    before: before === undefined ? undefined : archiveTime(before),
  };
}

export const archiveQueryOf = ({
  sort_order: order,
  page_id: pageId,
  limit,
  ...filters
}: EventSearch): HistoryQuery => ({
  ...historyFilterOf(filters),
  descending: order === 'TIMESTAMP_DESC',
  pageId,
  limit,
});

const unknown = Buffer.from('null');

const pageText = ({ events, nextPageId }: HistoryPage): Buffer[] =>
  listPieces(
    pageFrame(nextPageId),
    events.map(({ json }) => json),
  );

export const agentQueryOf = ({
  kind,
  kind__eq,
  page_id,
  ...others
}: Partial<EventSearch>): EventQuery =>
  compact({
    kind: kind__eq ?? kind,
    page_id: page_id === undefined ? undefined : agentPageId(page_id),
    ...others,
  });

/**
 * Forwards a page. Closes the connection if the page is too long or incomplete, because the
 * status has already been sent.
 */
async function passOn(page: Readable, response: Response): Promise<void> {
  let bytes = 0;
  const bounded = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      bytes += chunk.length;
      if (bytes > maxPageBytes)
        done(
          new AgentError('malformed', `The agent's answer is larger than ${maxPageBytes} bytes.`),
        );
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

const liveQuery = z.object({
  after: liveCursor.default('').describe('cursor of the answer before; absent: from the beginning'),
});

/** The response if the agent reports no live activity. */
const nothing: LiveActivity = { items: [], cursor: null, last_event_id: null, run_ms: null };

/**
 * Serves the output of running commands, and the text that the agent is writing. Clients poll with
 * a cursor and get what is new after it, so the gateway buffers nothing for slow or absent clients.
 */
export const liveRoute = ({ agentReads, events }: Omit<EventNeeds, 'history'>): Route =>
  get('/api/v1/app-conversations/{id}/live', 'getLive', {
    summary:
      'What the agent of a conversation does now and no event has yet: the output of running commands and text that is being written, since a cursor',
    params: conversationParams,
    query: liveQuery,
    responses: { 200: liveSchema },
    problems: agentProblems,
    handle: async ({ query: { after }, ...call }) => ({
      json: await agentReads.askOwn(
        call,
        ({ endpoint, id }, signal) => events.live(endpoint, id, after, signal),
        (answer) => answer ?? nothing,
      ),
    }),
  });
