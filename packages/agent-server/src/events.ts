/** Status of a run, as in the protocol of the OpenHands agent server. */
export type ExecutionStatus =
  'idle' | 'running' | 'paused' | 'waiting_for_confirmation' | 'finished' | 'error' | 'stuck';

export type Content =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly image_urls: readonly string[] };

export interface TerminalAction {
  readonly kind: 'TerminalAction';
  readonly command: string;
  readonly is_input: false;
  /** Timeout in seconds. */
  readonly timeout: number;
  readonly reset: false;
}

export interface TerminalObservation {
  readonly kind: 'TerminalObservation';
  readonly command: string;
  readonly content: readonly Content[];
  readonly exit_code: number;
  readonly is_error: boolean;
  /** True when the command exceeded its timeout. */
  readonly timeout: boolean;
  readonly metadata: { readonly exit_code: number; readonly working_dir: string };
}

export interface McpToolObservation {
  readonly kind: 'MCPToolObservation';
  readonly tool_name: string;
  readonly content: readonly Content[];
  readonly is_error: boolean;
}

interface ToolCall {
  readonly tool_name: string;
  readonly tool_call_id: string;
}

export interface Classification {
  readonly kind: 'auth' | 'rate_limit' | 'config' | 'transient' | 'agent_action' | 'internal';
  readonly retryable: boolean;
  readonly user_action: 'none' | 'retry' | 'settings';
}

/** Running totals of the whole conversation. */
export interface Stats {
  readonly usage_to_metrics: Readonly<
    Record<
      string,
      {
        readonly accumulated_cost: number;
        readonly accumulated_token_usage: {
          readonly prompt_tokens: number;
          readonly completion_tokens: number;
        };
      }
    >
  >;
}

export interface MessageEvent {
  readonly kind: 'MessageEvent';
  readonly source: 'user' | 'agent';
  readonly llm_message: {
    readonly role: 'user' | 'assistant' | 'system';
    readonly content: readonly Content[];
  };
  readonly activated_skills: readonly string[];
}

export interface ActionEvent extends ToolCall {
  readonly kind: 'ActionEvent';
  readonly source: 'agent';
  readonly thought: readonly Content[];
  /** Null for a call with invalid arguments; an AgentErrorEvent follows. */
  readonly action:
    | TerminalAction
    | { readonly kind: 'FinishAction'; readonly message: string }
    | { readonly kind: 'MCPToolAction'; readonly data: Readonly<Record<string, unknown>> }
    /** Approval request of an ACP agent, which runs the tool itself. */
    | { readonly kind: 'ExecuteBashAction' | 'AcpToolAction'; readonly [field: string]: unknown }
    | null;
  readonly tool_call: {
    readonly id: string;
    readonly name: string;
    readonly arguments: string;
    readonly origin: 'completion';
  };
  readonly llm_response_id: string;
  readonly security_risk: 'UNKNOWN';
  readonly summary?: string;
}

export interface ObservationEvent extends ToolCall {
  readonly kind: 'ObservationEvent';
  readonly source: 'environment';
  readonly action_id: string;
  readonly observation:
    | TerminalObservation
    | McpToolObservation
    | {
        readonly kind: 'FinishObservation';
        readonly content: readonly Content[];
        readonly is_error: false;
      };
}

/** State of a tool call of an ACP agent. Later events with the same `tool_call_id` replace it. */
export interface AcpToolCall {
  readonly kind: 'ACPToolCallEvent';
  readonly source: 'agent';
  readonly tool_call_id: string;
  readonly title: string;
  readonly status: string;
  readonly tool_kind: string;
  readonly raw_input: unknown;
  readonly raw_output: unknown;
  readonly content: unknown;
  readonly is_error: boolean;
}

/** Request of an ACP agent for the permission to run a tool, and the possible answers. */
export interface ApprovalRequest {
  readonly id: string;
  readonly tool_call_id: string;
  readonly title: string;
  readonly tool_kind: string;
  readonly input: unknown;
  /** Hash of the call before masking. Absent in events of earlier versions of the server. */
  readonly call_hash?: string;
  /** Whether title, kind and input are complete. Absent in events of earlier server versions. */
  readonly complete?: boolean;
  /**
   * Text that replaces each secret. If the agent itself has sent this text, a backslash follows its
   * first character. Absent in events of earlier server versions, which do not escape the text.
   */
  readonly secret_marker?: string;
  readonly options: readonly {
    readonly option_id: string;
    readonly name: string;
    readonly kind: string;
  }[];
}

/** The answer to an ApprovalRequest. Without an option, the agent does not run the tool. */
export interface ApprovalAnswer {
  readonly id: string;
  readonly option_id: string | null;
  readonly reason: string | null;
}

export interface AgentErrorEvent extends ToolCall {
  readonly kind: 'AgentErrorEvent';
  readonly source: 'agent';
  readonly error: string;
}

export interface UserRejectObservation extends ToolCall {
  readonly kind: 'UserRejectObservation';
  readonly source: 'environment';
  readonly action_id: string;
  readonly rejection_reason: string;
  readonly rejection_source: 'user';
}

export type StateUpdate =
  | { readonly key: 'execution_status'; readonly value: ExecutionStatus }
  | { readonly key: 'last_user_message_id'; readonly value: string }
  | { readonly key: 'stats'; readonly value: Stats }
  | { readonly key: 'approval_request'; readonly value: ApprovalRequest }
  | { readonly key: 'approval_answer'; readonly value: ApprovalAnswer }
  /**
   * `value` is the id of the request. `approval_delivered`: the server sends the answer next.
   * `approval_withdrawn`: the agent has withdrawn the request.
   */
  | { readonly key: 'approval_delivered' | 'approval_withdrawn'; readonly value: string }
  /** Id of the agent's session, which the next process continues. */
  | { readonly key: 'acp_session'; readonly value: string }
  /** Error of a session that no process could open. A new session replaces the session. */
  | { readonly key: 'acp_session_lost'; readonly value: string }
  /** How a new process continues the work: `resume`, `load` or `transcript`. */
  | { readonly key: 'acp_continued'; readonly value: string }
  | { readonly key: 'acp_secrets_skipped'; readonly value: readonly string[] }
  | { readonly key: 'acp_mcp_skipped'; readonly value: string }
  /** Text with the number of images that the agent does not get, and the reason. */
  | { readonly key: 'acp_images_skipped'; readonly value: string }
  /**
   * `begun` when a prompt begins, then the reason why it ended. No reason: it was interrupted.
   * `continued`: it has ended, and counts as interrupted.
   */
  | { readonly key: 'acp_turn'; readonly value: string }
  | { readonly key: 'plan' | 'thought' | 'acp_update'; readonly value: unknown }
  /** State that new clients get. The log never stores it. */
  | { readonly key: 'full_state'; readonly value: object };

export type StateUpdateEvent = StateUpdate & {
  readonly kind: 'ConversationStateUpdateEvent';
  readonly source: 'environment';
};

export interface ConversationErrorEvent {
  readonly kind: 'ConversationErrorEvent';
  readonly source: 'environment';
  readonly code: string;
  readonly detail: string;
  readonly classification: Classification;
}

/** An event as a program creates it. The log adds the id and the time. */
export type EventBody =
  | MessageEvent
  | ActionEvent
  | ObservationEvent
  | AcpToolCall
  | AgentErrorEvent
  | UserRejectObservation
  | StateUpdateEvent
  | ConversationErrorEvent
  | { readonly kind: 'PauseEvent' | 'InterruptEvent'; readonly source: 'user' };

export interface EventHead {
  readonly id: string;
  /** Time in UTC with microseconds, without a zone. Unique within a conversation. */
  readonly timestamp: string;
  readonly parent_id?: string;
}

export type AgentEvent = EventHead & EventBody;

export const textContent = (text: string): readonly Content[] => [{ type: 'text', text }];

export const textOf = (content: readonly Content[]): string =>
  content.map((part) => (part.type === 'text' ? part.text : '[image]')).join('\n');

export const stateEvent = (update: StateUpdate): EventBody => ({
  kind: 'ConversationStateUpdateEvent',
  source: 'environment',
  ...update,
});

export const statusUpdate = (value: ExecutionStatus): EventBody =>
  stateEvent({ key: 'execution_status', value });

export const agentMessage = (text: string): EventBody => ({
  kind: 'MessageEvent',
  source: 'agent',
  llm_message: { role: 'assistant', content: textContent(text) },
  activated_skills: [],
});

/** Formats a time as in the protocol: without a zone, with six decimals. */
export function eventTime(microseconds: number): string {
  const milliseconds = Math.floor(microseconds / 1000);
  const rest = String(microseconds % 1000).padStart(3, '0');
  return `${new Date(milliseconds).toISOString().slice(0, -1)}${rest}`;
}

export const microsecondsOf = (timestamp: string): number =>
  Date.parse(`${timestamp.slice(0, 23)}Z`) * 1000 + Number(timestamp.slice(23, 26).padEnd(3, '0'));
