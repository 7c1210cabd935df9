import type { RunResult } from '../resources/run-result.ts';
import type { AgentCallOptions, AgentConversation, AgentEndpoint, AgentFailure } from './agent.ts';
import { pathOf, type OpenHandsApi } from './openhands-api.ts';
import { recentEventsSchema, type RecentEvent } from './wire.ts';
import { failureOf, isStartOrFailureAfter } from './openhands-mapping.ts';
import { eventKindOf, isFailureCode, isLastMessage } from './event-kinds.ts';
import * as wire from './wire.ts';

/** Maximum events of one read. They cover the last step of a run and its state updates. */
const maxEvents = 20;
/** Maximum bytes of these events, because many runs may end at the same time. */
const maxBytes = 1024 * 1024;

/** Reads the result since the last user message from one page of events. Throws `AgentError`. */
export async function lastResult(
  api: OpenHandsApi,
  endpoint: AgentEndpoint,
  conversation: AgentConversation,
  options?: AgentCallOptions,
): Promise<RunResult | undefined> {
  const { items } = await api.get(
    endpoint,
    options,
    `${pathOf(conversation.id)}/events/search`,
    recentEventsSchema,
    { query: { sort_order: 'TIMESTAMP_DESC', limit: maxEvents }, maxBodyBytes: maxBytes },
  );
  // Without a model only the reference agent works. Agents of kind `acp` have models of their own.
  const hasModel =
    endpoint.kind === 'acp' ||
    conversation.metrics !== undefined ||
    (conversation.llm?.model ?? '') !== '';
  return resultOf(items, hasModel);
}

/** Result of the work in `newest`, which has the newest event first; undefined without any work. */
export function resultOf(newest: readonly RecentEvent[], hasModel: boolean): RunResult | undefined {
  const message = newest.findIndex(
    ({ kind, source }) => kind === 'MessageEvent' && source === 'user',
  );
  const events = message === -1 ? newest : newest.slice(0, message);
  const words = events.map(wordsOf).find((text) => text !== '');
  const called = events.find((event) => outcomeOf(event) !== undefined);
  const outcome = called && outcomeOf(called);
  // A call that a person rejects also has an event that reports its failure.
  const isRejected = events.some(
    (event) =>
      eventKindOf(event)?.result === 'rejected' &&
      called != null &&
      event.tool_call_id === called.tool_call_id,
  );
  const exitCode = called?.observation?.exit_code ?? undefined;
  const hasDoneNothing = message !== -1 && !events.some(isCall) && words !== undefined;
  if (words === undefined && outcome === undefined) return undefined;
  return {
    ...(words === undefined ? {} : { message: words }),
    ...(isRejected
      ? { reason: 'ToolRejected' }
      : outcome === 'failed'
        ? { reason: 'ToolFailed', ...(isFailureCode(exitCode) ? { exitCode } : {}) }
        : hasDoneNothing && !hasModel
          ? { reason: 'ModelNotConfigured' }
          : {}),
  };
}

/** Results of actions that are no tool calls: the final message of the agent, and its thoughts. */
const noTools: ReadonlySet<unknown> = new Set(['FinishObservation', 'ThinkObservation']);

const isCall = ({ kind, action }: RecentEvent): boolean =>
  kind === 'ACPToolCallEvent' || (kind === 'ActionEvent' && !isLastMessage(action?.kind));

/** Text that the agent says in an event; empty if the event has none. */
function wordsOf({ kind, source, action, llm_message: message }: RecentEvent): string {
  if (kind === 'ActionEvent' && isLastMessage(action?.kind)) return (action?.message ?? '').trim();
  if (kind !== 'MessageEvent' || source !== 'agent') return '';
  return (message?.content ?? [])
    .map(({ text }) => text ?? '')
    .join('\n')
    .trim();
}

/** Beginning of the error that agents report for a tool call that a pause interrupted. */
const interrupted = 'Tool call interrupted before completion.';

function outcomeOf(event: RecentEvent): 'done' | 'failed' | 'rejected' | undefined {
  const { status, error, observation } = event;
  switch (eventKindOf(event)?.result) {
    case 'observed':
      if (noTools.has(observation?.kind)) return undefined;
      return observation?.is_error === true || isFailureCode(observation?.exit_code)
        ? 'failed'
        : 'done';
    case 'failed':
      // An interruption by a pause is no failure of the tool.
      return error?.startsWith(interrupted) === true ? 'done' : 'failed';
    case 'rejected':
      return 'rejected';
    case undefined:
      if (eventKindOf(event)?.shown !== 'call') return undefined;
      return status === 'failed' ? 'failed' : status === 'completed' ? 'done' : undefined;
  }
}

/** Error of the last run; undefined if the agent reports none. Throws `AgentError`. */
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
  // If a run has started after the error, the error belongs to an earlier run. If a run has failed
  // after the error, the error is that of a title's generation, which does not end a run.
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
