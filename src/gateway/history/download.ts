import { conversationParams } from '../http/fields.ts';
import { z } from 'zod';
import type { Clock } from '@conversation-operator/base/clock';
import type { Shares } from '@conversation-operator/base/shares';
import type { AgentEvents } from '../../agent/events.ts';
import { sendChunks } from '@conversation-operator/http/body/send-chunks';
import { exportedHistory } from '../../archive/export.ts';
import type { HistoryEvent } from '../../archive/history.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { type HandlerResult, type Route, endpoints } from '../http/route.ts';
import { presentConversation } from '../presenters/conversation.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { Exposure } from '../presenters/sandbox.ts';
import type { Agent, AgentCall, AgentReads } from './agent-reads.ts';
import { sourcesOf } from '../presenters/conversation-records.ts';
import { archiveProblem, historyProblems, type HistoryReads } from './history-reads.ts';
import { AgentError } from '../../agent/errors.ts';
import { agentSource } from '../../archive/agent-source.ts';

/**
 * All events of a running agent, oldest first, in the form of the archive. Throws if the agent
 * returns another page than the requested one: an agent that does not know a page id starts again
 * at the first page.
 */
async function* agentHistory(
  { agentReads, events }: DownloadNeeds,
  agent: Agent,
  left: AbortSignal,
): AsyncGenerator<readonly HistoryEvent[], void, undefined> {
  const { endpoint, id } = agent;
  const source = agentSource({ events, endpoint, id, secrets: [] });
  let position = 0;
  let pageId: string | undefined;
  for (;;) {
    const page = await agentReads.ask(
      agent,
      left,
      (_agent, signal) => source.page(pageId, { descending: false, signal }),
      (answer) => answer,
    );
    const { events: part, next } = page;
    const isAsked = pageId === undefined || part[0]?.id === pageId;
    if (!isAsked || (part.length === 0 && next !== undefined))
      throw new AgentError(
        'malformed',
        'The agent sends another page of events than was asked for.',
      );
    const first = position;
    yield part.map((event, index) => ({ id: event.id, position: first + index, json: event.json }));
    position += part.length;
    if (next === undefined) return;
    pageId = next;
  }
}

const { get } = endpoints('conversations');

/** Maximum events of a download. The ZIP directory takes 130 bytes of memory for each event. */
export const maxDownloadEvents = 100_000;

/** All events of a conversation, for a download. */
interface Source {
  /** Number of events at the start of the download; a working agent may add more. */
  readonly count: number;
  readonly events: AsyncIterable<readonly HistoryEvent[]>;
}

interface DownloadNeeds {
  readonly agentReads: AgentReads;
  readonly history: HistoryReads;
  readonly events: AgentEvents;
  readonly lookup: ResourceLookup;
  readonly exposure: Exposure;
  readonly clock: Clock;
  readonly places: { readonly downloads: Shares };
}

export const downloadRoute = (needs: DownloadNeeds): Route =>
  get('/api/v1/app-conversations/{id}/download', 'downloadConversation', {
    summary: 'A conversation as a ZIP archive: its record, and a JSON file for each event',
    params: conversationParams,
    responses: { 200: z.string().meta({ format: 'binary' }) },
    mediaType: 'application/zip',
    problems: ['invalid-request', ...historyProblems, 'history-too-large'],
    handle: async (call) => {
      const release = needs.places.downloads.take({ owner: call.owner });
      try {
        return await download(needs, call);
      } finally {
        release();
      }
    },
  });

const download = (needs: DownloadNeeds, call: AgentCall): Promise<HandlerResult> => {
  const { agentReads, history, events } = needs;
  const send = (source: Source, conversation: CachedConversation, left: AbortSignal) =>
    sendZip(needs, call, { source, conversation, left });
  return history.ofOwn<HandlerResult>(call, {
    agent: async (agent, left, conversation) => {
      const count = await agentReads.ask(
        agent,
        left,
        ({ endpoint, id }, signal) => events.count(endpoint, id, {}, signal),
        (found) => found,
      );
      return send({ count, events: agentHistory(needs, agent, left) }, conversation, left);
    },
    archive: async (conversation, left) => {
      const source = await history.archive(
        conversation,
        left,
        async (reader, state, signal): Promise<Source> => ({
          count: await reader.count(state, {}, signal),
          events: reader.all(state, 0, left),
        }),
      );
      try {
        return await send(source, conversation, left);
      } catch (error) {
        throw archiveProblem(error, left);
      }
    },
  });
};

/**
 * Sends the ZIP archive at the client's pace. A failure closes the connection, so that no client
 * takes a part for the whole; a failure before the first events is a problem response.
 */
async function sendZip(
  { lookup, exposure, clock }: DownloadNeeds,
  { response }: AgentCall,
  {
    source: { count, events },
    conversation,
    left,
  }: {
    readonly source: Source;
    readonly conversation: CachedConversation;
    readonly left: AbortSignal;
  },
): Promise<HandlerResult> {
  const id = conversationIdOf(conversation);
  if (count > maxDownloadEvents) throw tooLarge(id, count);
  const parts = bounded(events, id);
  try {
    const isHead = response.req.method === 'HEAD';
    const ahead = isHead ? undefined : await begun(parts);
    const begin = () => {
      response.statusCode = 200;
      response.setHeader('content-type', 'application/zip');
      response.setHeader('content-disposition', `attachment; filename="conversation_${id}.zip"`);
    };
    if (ahead === undefined) {
      begin();
      response.end();
      return 'sent';
    }
    const { session_api_key: _key, ...record } = presentConversation(
      sourcesOf(lookup, conversation),
      exposure,
    );
    const zip = exportedHistory(ahead, { record, time: clock.now() });
    return { sentBytes: await sendChunks(response, zip, { clock, begin }) };
  } catch (error) {
    if (left.aborted && response.headersSent) return 'sent';
    throw error;
  } finally {
    await parts.return();
  }
}

/** Yields `parts`. Throws after `maxDownloadEvents` events, as the agent's count may be too low. */
export async function* bounded(
  parts: AsyncIterable<readonly HistoryEvent[]>,
  id: string,
): AsyncGenerator<readonly HistoryEvent[], void, undefined> {
  let count = 0;
  for await (const part of parts) {
    count += part.length;
    if (count > maxDownloadEvents) throw tooLarge(id, count);
    yield part;
  }
}

/** Resolves with the same items once the first item is available. */
async function begun<T>(items: AsyncGenerator<T, void, undefined>): Promise<AsyncIterable<T>> {
  const first = await items.next();
  return (async function* () {
    if (first.done === true) return;
    yield first.value;
    yield* items;
  })();
}

const tooLarge = (id: string, count: number): ProblemError =>
  new ProblemError(
    'history-too-large',
    `The conversation has ${count} events; a download has at most ${maxDownloadEvents}. The operators of the service export it with: conversation-operator archive export ${id}`,
  );
