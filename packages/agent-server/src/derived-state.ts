import type { Answered } from './approvals.ts';
import {
  textOf,
  type AcpToolCall,
  type ActionEvent,
  type AgentEvent,
  type ApprovalAnswer,
  type ApprovalRequest,
  type ExecutionStatus,
  type MessageEvent,
  type StateUpdateEvent,
  type Stats,
} from './events.ts';

export interface OpenApproval {
  readonly request: ApprovalRequest;
  readonly answer: ApprovalAnswer | undefined;
}

/** Maximum number of recent answers that are kept, to recognize a repeated answer. */
const maxAnswered = 16;

export class DerivedState {
  status: ExecutionStatus = 'idle';
  stats: Stats = { usage_to_metrics: {} };
  lastUserMessageId: string | undefined;
  title: string | undefined;
  openAction: (AgentEvent & ActionEvent) | undefined;
  approval: OpenApproval | undefined;
  /** Recent answers by id of the approval request, oldest first. */
  readonly answered = new Map<string, Answered>();
  acpSession: string | undefined;
  readonly skippedMcpServers = new Set<string>();
  skippedSecrets: readonly string[] = [];
  /** Cause that interrupted an ACP agent's last prompt: the `end` of its process, or a `pause`. */
  interruptedBy: 'end' | 'pause' | undefined;
  readonly openCalls = new Map<string, AcpToolCall>();

  apply(event: AgentEvent): void {
    switch (event.kind) {
      case 'ConversationStateUpdateEvent':
        this.#applyUpdate(event);
        return;
      case 'MessageEvent':
        if (event.source !== 'user') return;
        this.lastUserMessageId = event.id;
        this.title ??= titleOf(event);
        return;
      case 'ActionEvent':
        this.openAction = event;
        return;
      case 'ACPToolCallEvent':
        if (['completed', 'failed'].includes(event.status)) {
          this.openCalls.delete(event.tool_call_id);
          this.#close(event.tool_call_id);
        } else this.openCalls.set(event.tool_call_id, event);
        return;
      case 'ObservationEvent':
      case 'AgentErrorEvent':
      case 'UserRejectObservation':
        this.#close(event.tool_call_id);
        return;
      case 'PauseEvent':
      case 'InterruptEvent':
        if (this.interruptedBy !== undefined) this.interruptedBy = 'pause';
        return;
      case 'ConversationErrorEvent':
        return;
    }
  }

  #close(toolCallId: string | undefined): void {
    if (toolCallId === this.openAction?.tool_call_id) this.openAction = undefined;
  }

  #keepAnswer(answer: ApprovalAnswer, { options }: ApprovalRequest): void {
    this.answered.set(answer.id, { answer, options });
    const [oldest] = this.answered.keys();
    if (this.answered.size > maxAnswered && oldest !== undefined) this.answered.delete(oldest);
  }

  #applyUpdate(event: StateUpdateEvent): void {
    switch (event.key) {
      case 'execution_status':
        this.status = event.value;
        return;
      case 'stats':
        this.stats = event.value;
        return;
      case 'acp_session':
        this.acpSession = event.value;
        return;
      case 'acp_secrets_skipped':
        this.skippedSecrets = event.value;
        return;
      case 'acp_mcp_skipped':
        this.skippedMcpServers.add(event.value);
        return;
      case 'acp_turn':
        this.interruptedBy =
          event.value === 'begun' ? 'end' : event.value === 'continued' ? 'pause' : undefined;
        // Each action of an ACP agent is an approval request, which ends with its prompt.
        this.openAction = undefined;
        this.approval = undefined;
        return;
      case 'approval_request':
        this.approval = { request: event.value, answer: undefined };
        return;
      case 'approval_answer':
        if (event.value.id !== this.approval?.request.id) return;
        this.approval = { ...this.approval, answer: event.value };
        this.#keepAnswer(event.value, this.approval.request);
        return;
      case 'approval_delivered':
        if (event.value === this.approval?.request.id) this.approval = undefined;
        return;
      case 'approval_withdrawn':
        if (event.value !== this.approval?.request.id) return;
        this.#close(this.approval.request.tool_call_id);
        this.approval = undefined;
        return;
      default:
        return;
    }
  }
}

const maxTitleLength = 50;

/** Returns the message's first line that is not markup, truncated to the maximum length. */
function titleOf({ llm_message }: MessageEvent): string | undefined {
  const lines = textOf(llm_message.content).split('\n');
  const text = lines
    .map((line) => line.replace(/^\s*(```.*|~~~.*|[#>*-]+(?=\s))/, '').trim())
    .find((line) => line !== '');
  if (text === undefined || text.length <= maxTitleLength) return text;
  const truncated = text.slice(0, maxTitleLength);
  return `${truncated.slice(0, Math.max(truncated.lastIndexOf(' '), maxTitleLength / 2)).trimEnd()}…`;
}
