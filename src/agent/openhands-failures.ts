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
  options?: AgentCallOptions,
): Promise<AgentFailure | undefined> {
  const path = `${pathOf(id)}/events/search`;
  const newest = { kind: 'ConversationErrorEvent', sort_order: 'TIMESTAMP_DESC', limit: 1 };
  const { items } = await api.get(endpoint, options, path, wire.errorEventsSchema, {
    query: newest,
  });
  const [event] = items;
  if (event === undefined) return undefined;
  // An error older than the last start of a run belongs to an earlier run. An error older than the
  // failure belongs to the generation of the title, which does not end the run.
  const isLater = isStartOrFailureAfter(event.timestamp);
  const since = {
    kind: 'ConversationStateUpdateEvent',
    timestamp__gte: event.timestamp,
    limit: 100,
  };
  const updates = await api.pages(endpoint, options, path, wire.stateUpdatesSchema, since, (page) =>
    page.some(isLater),
  );
  return updates.some(isLater) ? undefined : failureOf(event);
}
