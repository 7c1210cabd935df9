import type { AgentClient, AgentConversation, AgentEndpoint } from '../../../agent/agent.ts';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { isRecent } from '../execution/run-observer.ts';
import { withRunRequested } from '../execution/run-resume.ts';
import { withoutRunPending } from './decide.ts';

const againAfterMs = 1_000;

/**
 * Whether the agent needs a request to run the stored message; `later`: the report of the agent is
 * too recent to decide.
 */
export function runRequestOf(
  { messages }: ConversationStatus,
  { executionStatus }: AgentConversation,
  nowMs: number,
): 'run' | 'later' | 'none' {
  if (messages?.runPending !== true) return 'none';
  if (executionStatus === 'idle' || executionStatus === messages.previousExecutionStatus)
    return 'run';
  // A request to run would confirm the action. After a confirmation the agent runs by itself; after
  // a rejection the agent is idle.
  if (executionStatus === 'waiting_for_confirmation') return 'later';
  // A stored message leaves the agent idle, or in the previous status. Another status follows from
  // a later event, which a person may want.
  return isRecent(messages, nowMs) ? 'later' : 'none';
}

/**
 * Requests the agent to run a stored message if the agent has not started a run for the message. A
 * fresh report decides, because a request to run confirms the actions that wait for an answer.
 * Returns the milliseconds until the next attempt while the run is pending.
 */
export async function requestPendingRun(
  {
    agent,
    clock,
  }: { readonly agent: Pick<AgentClient, 'conversation' | 'run'>; readonly clock: Clock },
  {
    endpoint,
    id,
    state: polled,
  }: { readonly endpoint: AgentEndpoint; readonly id: string; readonly state: AgentConversation },
  status: ConversationStatus,
  signal: AbortSignal,
): Promise<{ readonly status: ConversationStatus; readonly againAfterMs?: number }> {
  if (status.messages?.runPending !== true) return { status };
  const isWaiting = polled.executionStatus === 'waiting_for_confirmation';
  const state = isWaiting ? polled : await agent.conversation(endpoint, id, { signal });
  const request = state === undefined ? 'later' : runRequestOf(status, state, clock.now());
  if (request === 'later') return { status, againAfterMs };
  if (request === 'none') return { status: withoutRunPending(status) };
  await agent.run(endpoint, id, { signal });
  return { status: withRunRequested(withoutRunPending(status), isoTime(clock)) };
}
