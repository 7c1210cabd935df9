import { randomUUID } from 'node:crypto';
import type { Draft } from './event-log.ts';
import {
  type AcpToolCall,
  statusUpdate,
  type ActionEvent,
  type AgentEvent,
  type Content,
  type ConversationErrorEvent,
  type ExecutionStatus,
  stateEvent,
} from './events.ts';

/** Error of a tool call that was running when the process of the agent server ended. */
export const restartText =
  'A restart occurred while this tool was in progress. The command may have been executed in part and is not repeated automatically: check its effects before repeating it.';

export interface NewMessage {
  readonly role: 'user' | 'system' | 'assistant';
  readonly content: readonly Content[];
}

export function messageDrafts({ role, content }: NewMessage): readonly Draft[] {
  const id = randomUUID();
  return [
    {
      id,
      event: {
        kind: 'MessageEvent',
        source: 'user',
        llm_message: { role, content },
        activated_skills: [],
      },
    },
    { event: stateEvent({ key: 'last_user_message_id', value: id }) },
  ];
}

export const becomes = (status: ExecutionStatus): Draft => ({ event: statusUpdate(status) });

export const startsRun = (event: AgentEvent): boolean =>
  event.kind === 'ConversationStateUpdateEvent' &&
  event.key === 'execution_status' &&
  event.value === 'running';

export const paused = (kind: 'PauseEvent' | 'InterruptEvent' = 'PauseEvent'): readonly Draft[] => [
  { event: { kind, source: 'user' } },
  becomes('paused'),
];

export const rejectionOf = (
  { id, tool_name, tool_call_id }: AgentEvent & ActionEvent,
  rejection_reason: string,
): Draft => ({
  event: {
    kind: 'UserRejectObservation',
    source: 'environment',
    action_id: id,
    tool_name,
    tool_call_id,
    rejection_reason,
    rejection_source: 'user',
  },
});

/** Returns the event of a failed action; no event if there is no action. */
export const failureOf = (
  action: Pick<ActionEvent, 'tool_name' | 'tool_call_id'> | undefined,
  error: string,
): readonly Draft[] =>
  action === undefined
    ? []
    : [
        {
          event: {
            kind: 'AgentErrorEvent',
            source: 'agent',
            tool_name: action.tool_name,
            tool_call_id: action.tool_call_id,
            error,
          },
        },
      ];

export const failuresOf = (calls: Iterable<AcpToolCall>, reason: string): readonly Draft[] =>
  Array.from(calls, (call) => ({
    event: { ...call, status: 'failed', is_error: true, raw_output: call.raw_output ?? reason },
  }));

export const conversationError = (
  error: Pick<ConversationErrorEvent, 'code' | 'detail' | 'classification'>,
): Draft => ({ event: { kind: 'ConversationErrorEvent', source: 'environment', ...error } });
