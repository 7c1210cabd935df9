import {
  agentEventOf,
  type AgentEvent,
  type EventSource,
} from '../../../src/archive/agent-event.ts';

export const eventJson = (
  id: string,
  { kind = 'MessageEvent', timestamp = '2026-01-01T00:00:00', text = '' } = {},
): string => JSON.stringify({ id, timestamp, source: 'agent', kind, text });

export const eventOf = (json: string): AgentEvent => {
  const event = agentEventOf(Buffer.from(json));
  if (event === undefined) throw new Error(`no event: ${json}`);
  return event;
};

/** The log of an agent, with pages as openhands-agent-server has them. */
export function agentLog(events: AgentEvent[] = [], pageSize = 100) {
  let pages = 0;
  const source: EventSource = {
    page: (from, { descending }) => {
      pages++;
      const order = descending ? events.toReversed() : [...events];
      const start = Math.max(
        order.findIndex(({ id }) => id === from),
        0,
      );
      const next = order[start + pageSize]?.id;
      return Promise.resolve({ events: order.slice(start, start + pageSize), invalid: 0, next });
    },
  };
  return { events, source, pages: () => pages };
}
