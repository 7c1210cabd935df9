import type { PromptResponse, StopReason } from '@agentclientprotocol/sdk';
import * as z from 'zod/mini';
import type { ApprovalRequest, EventBody } from '../events.ts';

/** An agent that does not do what the protocol says; `detail` ends with what it printed. */
export class AcpFailure extends Error {
  override readonly name = 'AcpFailure';
}

export interface AcpUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** A part of a turn, as its reader gets it. */
export type TurnItem =
  | { readonly kind: 'events'; readonly events: readonly EventBody[] }
  | { readonly kind: 'permission'; readonly request: ApprovalRequest }
  | { readonly kind: 'stopped'; readonly reason: StopReason; readonly usage: AcpUsage | undefined }
  /** The agent has answered the prompt with an error. */
  | { readonly kind: 'refused'; readonly detail: string };

/** An update of the session from the agent; one can come between turns too. */
export const updateSchema = z.object({
  method: z.literal('session/update'),
  params: z.object({
    sessionId: z.string(),
    update: z.looseObject({ sessionUpdate: z.string() }),
  }),
});

export type AcpUpdate = z.output<typeof updateSchema>['params'];

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : JSON.stringify(error);

/** Whether the agent itself has answered with this error; a connection that closes has no code. */
export const isResponse = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && typeof error.code === 'number';

/** The tokens of a turn, as far as the agent states them; the protocol does not demand it. */
export function usageOf(response: PromptResponse): AcpUsage | undefined {
  const { usage } = response as { readonly usage?: Partial<AcpUsage> | null };
  const count = (value: unknown) =>
    typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;
  return usage == null
    ? undefined
    : { inputTokens: count(usage.inputTokens), outputTokens: count(usage.outputTokens) };
}

/** Resolves with the promise, or rejects with the reason of the signal. */
export const untilAborted = (promise: Promise<undefined>, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', abort, { once: true });
    void promise.then(() => {
      signal.removeEventListener('abort', abort);
      resolve();
    });
  });
