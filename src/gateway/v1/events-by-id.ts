import { idIn } from '../../archive/agent-event.ts';
import type { HistoryEvent } from '../../archive/history.ts';
import { AgentError } from '../../agent/errors.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { Services } from '../services.ts';
import { askAgent, type Agent } from './agent-reading.ts';

/** The JSON of events, by their ids. */
export type EventTexts = ReadonlyMap<string, Buffer>;

/** Maximum bytes of the events of one answer, all of which are in memory. */
const maxBytes = 8 * 1024 * 1024;
/** Events that an agent is asked for at once, each of which has up to `maxBytes` in memory. */
const readsAtOnce = 2;

/**
 * Asks a running agent for events. Throws where the agent does not know the conversation, sends
 * something else than the event, or more than `maxBytes`.
 */
export const agentEvents = (
  services: Services,
  agent: Agent,
  left: AbortSignal,
  ids: readonly string[],
): Promise<EventTexts> =>
  askAgent(
    services,
    agent,
    left,
    async ({ endpoint, id: conversation }, signal) => {
      const { events } = services;
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
      // An agent answers the same for an unknown event and for an unknown conversation.
      if (answer.texts.size === 0) await events.count(endpoint, conversation, {}, signal);
      return answer.texts;
    },
    (texts) => texts,
  );

/** The JSON of archived events. Throws where they have more than `maxBytes`. */
export async function archivedEvents(
  events: AsyncIterable<HistoryEvent>,
  ids: readonly string[],
): Promise<EventTexts> {
  const answer = collected(ids);
  for await (const { id, json } of events) answer.add(id, json);
  return answer.texts;
}

/** Takes the events that were asked for, each as often as its id was named. */
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
