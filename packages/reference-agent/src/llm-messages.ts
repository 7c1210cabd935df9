import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import {
  textOf,
  type ActionEvent,
  type AgentEvent,
  type Classification,
} from '@conversation-operator/agent-server/events';
import { RunFailure } from '@conversation-operator/agent-server/program';

interface Failure {
  readonly code: string;
  readonly detail: string;
  readonly classification: Classification;
}

const transient: Classification = { kind: 'transient', retryable: true, user_action: 'retry' };
const settings: Classification = { kind: 'config', retryable: false, user_action: 'settings' };

const authentication: Failure = {
  code: 'LLMAuthenticationError',
  detail: 'The API key of the model appears to be invalid.',
  classification: { kind: 'auth', retryable: false, user_action: 'settings' },
};

const byStatus: Readonly<Record<number, Failure>> = {
  401: authentication,
  404: {
    code: 'NotFoundError',
    detail: 'The model or its endpoint does not exist.',
    classification: settings,
  },
  429: {
    code: 'LLMRateLimitError',
    detail: 'The model provider limits the number of requests.',
    classification: { kind: 'rate_limit', retryable: true, user_action: 'retry' },
  },
};

const unavailable: Failure = {
  code: 'LLMServiceUnavailableError',
  detail: 'The model cannot be reached.',
  classification: transient,
};

/** Converts an error of the model's API. Keeps the provider's text only for a rejected request. */
export function llmFailureOf(error: unknown): RunFailure {
  const { code, detail, classification } = failureOf(error);
  return new RunFailure(code, detail, { classification, cause: error });
}

function failureOf(error: unknown): Failure {
  const status =
    error instanceof Error && 'status' in error && typeof error.status === 'number'
      ? error.status
      : undefined;
  if (status === undefined || status >= 500) return unavailable;
  const reason = error instanceof Error ? error.message.slice(0, 500) : '';
  return (
    byStatus[status] ?? {
      code: 'LLMBadRequestError',
      detail: `The model rejected the request: ${reason}`,
      classification: settings,
    }
  );
}

type ToolMessage = Extract<ChatCompletionMessageParam, { role: 'tool' }>;

/** Maximum characters of tool results that are sent to the model; the oldest are dropped first. */
const maxToolCharacters = 400_000;

/**
 * Converts events into chat messages for a model. Providers reject a tool call without a result,
 * and a message between a call and its result. A message that arrived while a command ran therefore
 * follows the result, and a call without a result is omitted.
 */
export function historyOf(events: readonly AgentEvent[]): ChatCompletionMessageParam[] {
  const messages: ChatCompletionMessageParam[] = [];
  let open:
    { readonly action: ActionEvent; readonly waiting: ChatCompletionMessageParam[] } | undefined;
  const addResult = (toolCallId: string, content: string) => {
    if (open?.action.tool_call_id !== toolCallId) return;
    messages.push(
      callOf(open.action),
      { role: 'tool', tool_call_id: toolCallId, content },
      ...open.waiting,
    );
    open = undefined;
  };
  for (const event of events) {
    if (event.kind === 'MessageEvent') {
      const content = textOf(event.llm_message.content);
      (open?.waiting ?? messages).push({
        role: event.source === 'user' ? 'user' : 'assistant',
        content,
      });
    } else if (event.kind === 'ActionEvent') {
      messages.push(...(open?.waiting ?? []));
      open = { action: event, waiting: [] };
    } else if (event.kind === 'ObservationEvent') {
      addResult(event.tool_call_id, resultOf(event.observation));
    } else if (event.kind === 'AgentErrorEvent') {
      addResult(event.tool_call_id, event.error);
    } else if (event.kind === 'UserRejectObservation') {
      addResult(event.tool_call_id, `Action rejected: ${event.rejection_reason}`);
    }
  }
  messages.push(...(open?.waiting ?? []));
  return omitOldResults(messages);
}

function callOf(action: ActionEvent): ChatCompletionMessageParam {
  const { id, name, arguments: args } = action.tool_call;
  return {
    role: 'assistant',
    content: action.thought.length === 0 ? null : textOf(action.thought),
    tool_calls: [{ id, type: 'function', function: { name, arguments: args } }],
  };
}

function resultOf(
  observation: Extract<AgentEvent, { kind: 'ObservationEvent' }>['observation'],
): string {
  const text = textOf(observation.content);
  if (observation.kind === 'FinishObservation') return text;
  if (observation.kind === 'MCPToolObservation')
    return observation.is_error ? `${text}\n[the tool failed]` : text;
  return `${text}\n[${observation.timeout ? 'timed out, ' : ''}exit code ${observation.exit_code}]`;
}

function omitOldResults(
  messages: readonly ChatCompletionMessageParam[],
): ChatCompletionMessageParam[] {
  let room = maxToolCharacters;
  return messages
    .toReversed()
    .map((message) => {
      if (message.role !== 'tool' || typeof message.content !== 'string') return message;
      room -= message.content.length;
      return room >= 0
        ? message
        : ({ ...message, content: '[old output omitted]' } satisfies ToolMessage);
    })
    .toReversed();
}
