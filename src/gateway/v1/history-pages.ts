import { AgentError } from '../../agent/errors.ts';
import { agentSource } from '../../archive/agent-source.ts';
import type { HistoryEvent } from '../../archive/history.ts';
import type { Services } from '../services.ts';
import { askAgent, type Agent } from './agent-reading.ts';

/**
 * All events of a running agent, oldest first, page by page, as the archive would have them. Throws
 * where the agent sends something else than the page that was asked for: an agent that does not
 * know a page id begins again.
 */
export async function* agentHistory(
  services: Services,
  agent: Agent,
  left: AbortSignal,
): AsyncGenerator<readonly HistoryEvent[], void, undefined> {
  const { endpoint, id } = agent;
  const source = agentSource({ events: services.events, endpoint, id, secrets: [] });
  let position = 0;
  let pageId: string | undefined;
  for (;;) {
    const page = await askAgent(
      services,
      agent,
      left,
      (_agent, signal) => source.page(pageId, { descending: false, signal }),
      (answer) => answer,
    );
    const { events, next } = page;
    const isAsked = pageId === undefined || events[0]?.id === pageId;
    if (!isAsked || (events.length === 0 && next !== undefined))
      throw new AgentError(
        'malformed',
        'The agent sends another page of events than was asked for.',
      );
    const first = position;
    yield events.map((event, index) => ({
      id: event.id,
      position: first + index,
      json: event.json,
    }));
    position += events.length;
    if (next === undefined) return;
    pageId = next;
  }
}
