import { conversationParams } from '../http/fields.ts';
import { z } from 'zod';
import { type AgentEvents, liveCursor, liveSchema, type LiveActivity } from '../../agent/events.ts';
import { type Route, endpoints } from '../http/route.ts';
import { agentProblems, type AgentReads } from './agent-reads.ts';

const { get } = endpoints('events');

const query = z.object({
  after: liveCursor.default('').describe('cursor of the answer before; absent: from the beginning'),
});

/** The answer for an agent that reports nothing but its events. */
const nothing: LiveActivity = { items: [], cursor: null, last_event_id: null, run_ms: null };

/**
 * Output of running commands and text that is being written. Clients poll with a cursor: an answer
 * has what is new since, so that a slow client costs no memory, and one that is away costs nothing.
 */
export const liveRoute = ({
  agentReads,
  events,
}: {
  readonly agentReads: AgentReads;
  readonly events: AgentEvents;
}): Route =>
  get('/api/v1/app-conversations/{id}/live', 'getLive', {
    summary:
      'What the agent of a conversation does now and no event has yet: the output of running commands and text that is being written, since a cursor',
    params: conversationParams,
    query,
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
