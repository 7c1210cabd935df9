import type { AgentCallOptions, AgentEndpoint, AgentFailure } from './agent.ts';
import { pathOf, type OpenHandsApi } from './openhands-api.ts';
import { failureOf, isStartOrFailureAfter } from './openhands-mapping.ts';
import * as wire from './wire.ts';

/** Why the last run of a conversation has failed; undefined where the agent says nothing of it. Throws `AgentError`. */
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
  // An error older than the last start of a run belongs to an earlier run. One that is older than the failure is that of a title,
  // which the run had survived until its container was killed.
  const isLater = isStartOrFailureAfter(event.timestamp);
  const query = { kind: 'ConversationStateUpdateEvent', timestamp__gte: event.timestamp, limit: 100 };
  const updates = await api.pages(endpoint, options, { path, query, answer: wire.stateUpdatesSchema }, (items) => items.some(isLater));
  return updates.some(isLater) ? undefined : failureOf(event);
}
