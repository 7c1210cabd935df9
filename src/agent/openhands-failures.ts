import type { AgentCallOptions, AgentEndpoint, AgentFailure } from './agent.ts';
import { pathOf, type OpenHandsApi } from './openhands-api.ts';
import { failureOf, isStartOrFailureAfter } from './openhands-mapping.ts';
import * as wire from './wire.ts';

/**
 * Failure of a conversation's last run; undefined when the agent reports none. Throws `AgentError`.
 */
export async function lastFailure(
  api: OpenHandsApi,
  endpoint: AgentEndpoint,
  id: string,
  options: AgentCallOptions,
): Promise<AgentFailure | undefined> {
  const path = `${pathOf(id)}/events/search`;
  const { body } = await api.call(endpoint, options, {
    ...{ method: 'GET', path, answer: wire.errorEventsSchema },
    query: { kind: 'ConversationErrorEvent', sort_order: 'TIMESTAMP_DESC', limit: 1 },
  });
  const [event] = body.items;
  if (event === undefined) return undefined;
  // An error older than the last start of a run belongs to an earlier run. An error older than the
  // failure belongs to the generation of the title, which does not end the run.
  const isLater = isStartOrFailureAfter(event.timestamp);
  const query = {
    kind: 'ConversationStateUpdateEvent',
    timestamp__gte: event.timestamp,
    limit: 100,
  };
  const updates = await api.pages(
    endpoint,
    options,
    { path, query, answer: wire.stateUpdatesSchema },
    (items) => items.some(isLater),
  );
  return updates.some(isLater) ? undefined : failureOf(event);
}
