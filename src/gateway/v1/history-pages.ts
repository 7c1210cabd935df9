import type { Readable } from 'node:stream';
import { z } from 'zod';
import { AgentError } from '../../agent/errors.ts';
import type { HistoryEvent } from '../../archive/history.ts';
import type { Services } from '../services.ts';
import { askAgent, type Agent } from './agent-reading.ts';

/** Maximum events of one page of an agent. */
const pageSize = 100;
/** Maximum bytes of a page, all of which are in memory; a page with more is asked for in parts. */
const maxPageBytes = 4 * 1024 * 1024;
/** Maximum bytes of a single event. */
const maxEventBytes = 32 * 1024 * 1024;

const agentPage = z.object({
  items: z.array(z.looseObject({ id: z.string() })),
  next_page_id: z.string().nullish(),
});
type AgentPage = z.output<typeof agentPage>;

/**
 * All events of a running agent, oldest first, page by page. Throws where the agent sends something
 * else than the page that was asked for: an agent that does not know a page id begins again.
 */
export async function* agentHistory(
  services: Services,
  agent: Agent,
  left: AbortSignal,
): AsyncGenerator<readonly HistoryEvent[], void, undefined> {
  const { events } = services;
  let position = 0;
  let limit = pageSize;
  let pageId: string | undefined;
  for (;;) {
    const query = { limit, ...(pageId === undefined ? {} : { page_id: pageId }) };
    const maxBytes = limit === 1 ? maxEventBytes : maxPageBytes;
    const page = await askAgent(
      services,
      agent,
      left,
      (_agent, signal) => events.search(agent.endpoint, agent.id, query, signal),
      (answer) => pageOf(answer, maxBytes),
    );
    if (page === undefined) {
      if (limit === 1) throw malformed(`sends an event of more than ${maxEventBytes} bytes`);
      limit = Math.ceil(limit / 8);
      continue;
    }
    const { items, next_page_id: next } = page;
    const isAsked = pageId === undefined || items[0]?.id === pageId;
    if (!isAsked || items.length > limit || (items.length === 0 && next != null))
      throw malformed('sends another page of events than was asked for');
    const first = position;
    yield items.map((item, index) => ({
      ...{ id: item.id, position: first + index, json: JSON.stringify(item) },
    }));
    position += items.length;
    if (next == null) return;
    pageId = next;
    limit = Math.min(pageSize, limit * 2);
  }
}

/** The page; undefined where it is larger. */
async function pageOf(answer: Readable, maxBytes: number): Promise<AgentPage | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  // Leaving the loop destroys the answer.
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) return undefined;
    chunks.push(chunk);
  }
  try {
    return agentPage.parse(JSON.parse(Buffer.concat(chunks).toString()));
  } catch (error) {
    throw malformed('sends something else than a page of events', error);
  }
}

const malformed = (what: string, cause?: unknown): AgentError =>
  new AgentError('malformed', `The agent ${what}.`, { cause });
