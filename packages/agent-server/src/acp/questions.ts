import { randomUUID } from 'node:crypto';
import type { RequestPermissionRequest, RequestPermissionResponse } from '@agentclientprotocol/sdk';
import { isAllowing } from '../approvals.ts';
import type { ApprovalRequest } from '../events.ts';
import { bounded } from './tool-calls.ts';

/** Maximum open permission requests of an agent. The server cancels further ones. */
const maxPermissions = 100;
const maxOptions = 20;
/** JSON-RPC error code of a request that the agent itself has cancelled. */
const requestCancelled = -32_800;
const maxOptionCharacters = 200;
const maxNameCharacters = 400;

export const cancelled: RequestPermissionResponse = { outcome: { outcome: 'cancelled' } };

export interface QuestionsOptions {
  /** Whether people may choose the options `…_always`, which also apply to later calls. */
  readonly allowAlways: boolean;
  readonly masked: (text: string) => string;
  /** Called when the agent withdraws a permission request that `next` has returned. */
  readonly onWithdrawn: (id: string) => void;
  /** Called when the agent has cancelled a permission request. */
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

  /** Returns the next permission request for a person, and marks it as shown. */
  next(): ApprovalRequest | undefined {
    const next = this.#open.find(({ isShown }) => !isShown);
    if (next !== undefined) next.isShown = true;
    return next?.request;
  }

  /** Whether this is the last permission request that the agent has withdrawn. */
  hasWithdrawn(id: string): boolean {
    return id === this.#lastWithdrawn;
  }

  /** Resolves to the answer of a permission request. The agent aborts the signal to cancel it. */
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
          // Rejections precede permissions in the bounded list, so a person can always reject.
          .sort((one, other) => Number(isAllowing(one.kind)) - Number(isAllowing(other.kind)))
          .filter(({ optionId }) => optionId.length <= maxOptionCharacters)
          // The agent expects unmasked ids, so an option whose id contains a secret is omitted.
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
   * Answers a permission request. An option that the agent has not offered cancels the request.
   * `unknown`: the request is of an earlier process, or its prompt was cancelled.
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
   * Cancels the requests of an ended prompt. If the connection closed before a response, requests
   * that were shown to a person stay open, because the next process gets their answers.
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

  /** Removes a request that the agent cancelled. A lost connection is no cancellation. */
  #withdraw(open: OpenQuestion, reason: unknown): void {
    const isAgents =
      reason instanceof Error && 'code' in reason && reason.code === requestCancelled;
    const index = this.#open.indexOf(open);
    if (!isAgents || index === -1) return;
    this.#open.splice(index, 1);
    this.#cancel(open);
    this.#options.onChange();
  }

  /** Cancels a request, and reports this if the request was shown to a person. */
  #cancel({ request, answer, isShown }: OpenQuestion): void {
    answer(cancelled);
    if (!isShown) return;
    this.#lastWithdrawn = request.id;
    this.#options.onWithdrawn(request.id);
  }
}
