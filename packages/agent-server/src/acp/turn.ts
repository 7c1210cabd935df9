import type { PromptResponse, StopReason } from '@agentclientprotocol/sdk';
import * as z from 'zod/mini';
import { stateEvent, type ApprovalRequest, type EventBody } from '../events.ts';
import type { Draft } from '../event-log.ts';
import { RunFailure, type Run } from '../program.ts';
import { actionEvent } from '../tool-events.ts';

/** The agent ended, rejected a call, or violated the protocol. The message ends with its stderr. */
export class AcpFailure extends Error {
  override readonly name = 'AcpFailure';
}

export interface AcpUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export type TurnItem =
  | { readonly kind: 'events'; readonly events: readonly EventBody[] }
  | { readonly kind: 'permission'; readonly request: ApprovalRequest }
  | { readonly kind: 'stopped'; readonly reason: StopReason; readonly usage: AcpUsage | undefined }
  | { readonly kind: 'refused'; readonly detail: string };

/** Notification `session/update`. An agent may also send one without a prompt in progress. */
export const updateSchema = z.object({
  method: z.literal('session/update'),
  params: z.object({ sessionId: z.string(), update: z.looseObject({ sessionUpdate: z.string() }) }),
});

export type AcpUpdate = z.output<typeof updateSchema>['params'];

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : JSON.stringify(error);

/** Whether the agent itself sent this error. The error of a closed connection has no code. */
export const isResponse = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && typeof error.code === 'number';

/** Returns the tokens that a prompt used; undefined if the agent does not report them. */
export function usageOf(response: PromptResponse): AcpUsage | undefined {
  const { usage } = response as { readonly usage?: Partial<AcpUsage> | null };
  const count = (value: unknown) =>
    typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;
  return usage == null
    ? undefined
    : { inputTokens: count(usage.inputTokens), outputTokens: count(usage.outputTokens) };
}

export const untilAborted = (promise: Promise<undefined>, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', abort, { once: true });
    void promise.then(() => {
      signal.removeEventListener('abort', abort);
      resolve();
    });
  });

/** Returns the events of a permission request: the action that waits, and the request itself. */
export function questionDrafts(request: ApprovalRequest): readonly Draft[] {
  const { id, tool_call_id: toolCallId, title, tool_kind: tool, input } = request;
  const isObject = typeof input === 'object' && input !== null && !Array.isArray(input);
  const fields = isObject ? input : { input };
  const isCommand = 'command' in fields && typeof fields.command === 'string';
  const kind = isCommand ? 'ExecuteBashAction' : 'AcpToolAction';
  const origin = { toolCallId, responseId: id, thought: '' };
  return [
    { id, event: { ...actionEvent(tool, origin, input, { ...fields, kind }), summary: title } },
    { event: stateEvent({ key: 'approval_request', value: request }) },
  ];
}

export const unreadText = (
  count: number,
  { readsImages }: { readonly readsImages: boolean },
): string =>
  readsImages
    ? `The agent reads only images that are in the message: ${leftOut(count)}.`
    : `The agent reads no images: ${leftOut(count)}.`;
const leftOut = (count: number): string => `${count} ${count === 1 ? 'was' : 'were'} left out`;

export const failureOf = (error: AcpFailure): RunFailure =>
  new RunFailure('AcpAgentFailed', error.message, {
    cause: error,
    classification: { kind: 'transient', retryable: true, user_action: 'retry' },
  });

export const unsupported = (name: string, type: string): RunFailure =>
  new RunFailure(
    'AcpMcpServerUnsupported',
    `The agent supports no MCP servers over ${type}, as ${name} of ACP_MCP_SERVERS is.`,
    { classification: { kind: 'config', retryable: false, user_action: 'settings' } },
  );

const stopDetails: Readonly<Record<string, string>> = {
  refusal: 'The agent has refused to work on the message.',
  max_tokens: "The model's answer has reached its maximum length.",
  max_turn_requests: 'The agent has reached its maximum number of steps without finishing.',
};

export const stopFailure = (reason: string): RunFailure =>
  new RunFailure(
    reason === 'max_turn_requests' ? 'MaxIterationsReached' : 'AcpTurnEnded',
    stopDetails[reason] ?? `The agent has ended its turn: ${reason.slice(0, 100)}.`,
    { classification: { kind: 'agent_action', retryable: true, user_action: 'none' } },
  );

export function statsDrafts({ stats }: Run, usage: AcpUsage | undefined): readonly Draft[] {
  if (usage === undefined) return [];
  const before = stats.usage_to_metrics['default'];
  const { prompt_tokens = 0, completion_tokens = 0 } = before?.accumulated_token_usage ?? {};
  const metrics = {
    accumulated_cost: before?.accumulated_cost ?? 0,
    accumulated_token_usage: {
      prompt_tokens: prompt_tokens + usage.inputTokens,
      completion_tokens: completion_tokens + usage.outputTokens,
    },
  };
  return [
    { event: stateEvent({ key: 'stats', value: { usage_to_metrics: { default: metrics } } }) },
  ];
}
