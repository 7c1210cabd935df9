import {
  textOf,
  type ActionEvent,
  type AgentEvent,
  type ExecutionStatus,
  type MessageEvent,
  type Stats,
} from './events.ts';

/** State of a conversation, derived from its events. */
export class DerivedState {
  status: ExecutionStatus = 'idle';
  stats: Stats = { usage_to_metrics: {} };
  lastUserMessageId: string | undefined;
  title: string | undefined;
  openAction: (AgentEvent & ActionEvent) | undefined;

  apply(event: AgentEvent): void {
    switch (event.kind) {
      case 'ConversationStateUpdateEvent':
        if (event.key === 'execution_status') this.status = event.value;
        if (event.key === 'stats') this.stats = event.value;
        return;
      case 'MessageEvent':
        if (event.source !== 'user') return;
        this.lastUserMessageId = event.id;
        this.title ??= titleOf(event);
        return;
      case 'ActionEvent':
        this.openAction = event;
        return;
      case 'ObservationEvent':
      case 'AgentErrorEvent':
      case 'UserRejectObservation':
        if (event.tool_call_id === this.openAction?.tool_call_id) this.openAction = undefined;
        return;
      case 'ConversationErrorEvent':
      case 'PauseEvent':
      case 'InterruptEvent':
        return;
    }
  }
}

const maxTitleLength = 50;

/** Returns the first line of the message that is not markup, truncated to the maximum length. */
function titleOf({ llm_message }: MessageEvent): string | undefined {
  const lines = textOf(llm_message.content).split('\n');
  const text = lines
    .map((line) => line.replace(/^\s*(```.*|~~~.*|[#>*-]+(?=\s))/, '').trim())
    .find((line) => line !== '');
  if (text === undefined || text.length <= maxTitleLength) return text;
  const truncated = text.slice(0, maxTitleLength);
  return `${truncated.slice(0, Math.max(truncated.lastIndexOf(' '), maxTitleLength / 2)).trimEnd()}…`;
}
