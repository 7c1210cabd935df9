import { signal } from '@preact/signals';
import { api, ApiError, messageOf } from './api.ts';
import type { Approval } from './wire.ts';

/** The answer of a person to a question, until the service has confirmed it. */
export interface GivenAnswer {
  readonly id: string;
  readonly option: string;
  /** Why the service has not taken it; undefined while it is under way. */
  readonly problem?: string;
}

/** The questions of the agent of one conversation, and the answer. */
export class Questions {
  readonly open = signal<readonly Approval[]>([]);
  readonly given = signal<GivenAnswer | undefined>(undefined);
  readonly #path: string;

  constructor(conversationId: string) {
    this.#path = `/api/v1/app-conversations/${conversationId}/approvals`;
  }

  /** Reads what is asked now. A read that fails leaves what is shown; the next one follows soon. */
  async refresh(): Promise<void> {
    try {
      const open = await api.get<readonly Approval[]>(this.#path, {});
      if (JSON.stringify(open) !== JSON.stringify(this.open.peek())) this.open.value = open;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }

  forget(): void {
    if (this.open.peek().length > 0) this.open.value = [];
    this.given.value = undefined;
  }

  /** Sends an answer once; the question stays until the service has taken it. */
  async answer({ id }: Approval, option: string, reason: string): Promise<void> {
    if (this.given.peek()?.id === id && this.given.peek()?.problem === undefined) return;
    this.given.value = { id, option };
    try {
      const body = { option_id: option, ...(reason.trim() === '' ? {} : { reason }) };
      await api.post(`${this.#path}/${encodeURIComponent(id)}`, body);
      this.open.value = this.open.peek().filter((one) => one.id !== id);
      this.given.value = undefined;
    } catch (error) {
      this.given.value = { id, option, problem: messageOf(error) };
    }
    await this.refresh();
  }
}
