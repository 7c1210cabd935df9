import { signal } from '@preact/signals';
import { api, messageOf } from './api.ts';
import type { Approval, ConversationRecord } from './wire.ts';

/** The answer of a person to a question, until the record of the conversation shows it. */
export interface GivenAnswer {
  readonly id: string;
  readonly option: string;
  readonly state: 'sending' | 'stored' | 'failed';
  /** Why the service has not taken it. */
  readonly problem?: string;
}

/** The answer to the question of the agent of one conversation. */
export class Questions {
  readonly given = signal<GivenAnswer | undefined>(undefined);

  /** The question that waits for an answer; undefined without one. */
  openOf(conversation: ConversationRecord | undefined): Approval | undefined {
    const asked = conversation?.pending_approval ?? undefined;
    const { id, state } = this.given.value ?? {};
    return asked?.id === id && state === 'stored' ? undefined : asked;
  }

  /** Sends an answer once; the question stays until the service has stored it. */
  async answer(
    { id, conversation_id: conversation }: Approval,
    option: string,
    reason: string,
  ): Promise<void> {
    const given = this.given.peek();
    if (given?.id === id && given.state !== 'failed') return;
    this.given.value = { id, option, state: 'sending' };
    try {
      const body = { option_id: option, ...(reason.trim() === '' ? {} : { reason }) };
      const path = `/api/v1/app-conversations/${conversation}/approvals/${encodeURIComponent(id)}`;
      await api.post(path, body);
      this.given.value = { id, option, state: 'stored' };
    } catch (error) {
      this.given.value = { id, option, state: 'failed', problem: messageOf(error) };
    }
  }
}
