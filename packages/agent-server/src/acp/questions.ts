import { randomUUID } from 'node:crypto';
import type { RequestPermissionRequest, RequestPermissionResponse } from '@agentclientprotocol/sdk';
import { isAllowing } from '../approvals.ts';
import type { ApprovalRequest } from '../events.ts';
import { bounded } from './tool-calls.ts';

/** Maximum questions that wait to be shown or answered; further ones are cancelled. */
const maxPermissions = 100;
const maxOptions = 20;
/** JSON-RPC error code of a request that the agent itself has cancelled. */
const requestCancelled = -32_800;
const maxOptionCharacters = 200;
const maxNameCharacters = 400;

export const cancelled: RequestPermissionResponse = { outcome: { outcome: 'cancelled' } };

export interface QuestionsOptions {
  /** Whether people may choose options that apply to later calls as well. */
  readonly allowAlways: boolean;
  readonly masked: (text: string) => string;
  /** Called when the agent withdraws a question that a person has seen. */
  readonly onWithdrawn: (id: string) => void;
  /** Called when the agent itself has cancelled a question. */
  readonly onChange: () => void;
}

interface OpenQuestion {
  readonly request: ApprovalRequest;
  readonly answer: (response: RequestPermissionResponse) => void;
  isShown: boolean;
}

export class Questions {
  readonly #options: QuestionsOptions;
  readonly #open: OpenQuestion[] = [];
  #lastWithdrawn: string | undefined;

  constructor(options: QuestionsOptions) {
    this.#options = options;
  }

  get isFull(): boolean {
    return this.#open.length >= maxPermissions;
  }

  get hasNext(): boolean {
    return this.#open.some(({ isShown }) => !isShown);
  }

  /** Returns the next question for a person. The question then counts as shown. */
  next(): ApprovalRequest | undefined {
    const next = this.#open.find(({ isShown }) => !isShown);
    if (next !== undefined) next.isShown = true;
    return next?.request;
  }

  /** Whether the last question is this one, and the agent itself has cancelled it. */
  hasWithdrawn(id: string): boolean {
    return id === this.#lastWithdrawn;
  }

  /** Keeps a question until it is answered. The agent aborts the signal to cancel it. */
  ask(
    asked: Omit<ApprovalRequest, 'id' | 'options'>,
    options: RequestPermissionRequest['options'],
    signal: AbortSignal,
  ): Promise<RequestPermissionResponse> {
    const { allowAlways, masked } = this.#options;
    const { promise, resolve } = Promise.withResolvers<RequestPermissionResponse>();
    const open: OpenQuestion = {
      request: {
        id: randomUUID(),
        ...asked,
        options: [...options]
          // Refusals precede permissions in the bounded list, so a person can always refuse.
          .sort((one, other) => Number(isAllowing(one.kind)) - Number(isAllowing(other.kind)))
          .filter(({ optionId }) => optionId.length <= maxOptionCharacters)
          // The agent expects the id of the option unmasked, so an id must contain no secret.
          .filter(({ optionId }) => masked(optionId) === optionId)
          .filter(({ kind }) => allowAlways || !kind.endsWith('_always'))
          .slice(0, maxOptions)
          .map(({ optionId, name, kind }) => ({
            option_id: optionId,
            name: String(bounded(masked(name), maxNameCharacters)),
            kind,
          })),
      },
      answer: resolve,
      isShown: false,
    };
    this.#open.push(open);
    signal.addEventListener('abort', () => this.#withdraw(open, signal.reason), { once: true });
    return promise;
  }

  /**
   * Answers a question. An option that the agent has not offered cancels the question. `unknown`:
   * this process has not asked the question, or its turn was cancelled since.
   */
  answer(id: string, optionId: string | null): 'answered' | 'withdrawn' | 'unknown' {
    const index = this.#open.findIndex(({ request }) => request.id === id);
    const [open] = index === -1 ? [] : this.#open.splice(index, 1);
    if (open === undefined) return this.hasWithdrawn(id) ? 'withdrawn' : 'unknown';
    const isOffered = open.request.options.some(({ option_id }) => option_id === optionId);
    open.answer(
      isOffered && optionId !== null ? { outcome: { outcome: 'selected', optionId } } : cancelled,
    );
    return 'answered';
  }

  /**
   * Ends the turn, so no tool waits for an answer any more. When the connection has closed, a
   * question that a person has seen stays open: the next process gets the answer.
   */
  endTurn(isAnswered: boolean): void {
    for (const open of this.#open.filter(({ isShown }) => isAnswered || !isShown)) {
      this.#open.splice(this.#open.indexOf(open), 1);
      this.#cancel(open);
    }
  }

  cancelAll(): void {
    for (const { answer } of this.#open.splice(0)) answer(cancelled);
  }

  /**
   * Removes a question that the agent cancelled, but leaves it after a lost connection, because the
   * next process gets the answer.
   */
  #withdraw(open: OpenQuestion, reason: unknown): void {
    const isAgents =
      reason instanceof Error && 'code' in reason && reason.code === requestCancelled;
    const index = this.#open.indexOf(open);
    if (!isAgents || index === -1) return;
    this.#open.splice(index, 1);
    this.#cancel(open);
    this.#options.onChange();
  }

  /** Ends a question that the agent no longer wants answered, shown or not. */
  #cancel({ request, answer, isShown }: OpenQuestion): void {
    answer(cancelled);
    if (!isShown) return;
    this.#lastWithdrawn = request.id;
    this.#options.onWithdrawn(request.id);
  }
}
