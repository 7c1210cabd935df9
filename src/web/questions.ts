import { signal } from '@preact/signals';
import { api, messageOf } from './api.ts';
import { outcomeOf, type Stored } from './outcome.ts';
import type { Approval, ConversationRecord, WholeApproval } from './wire.ts';

/** The answer of a person to a question, until the record of the conversation shows it. */
export interface GivenAnswer {
  readonly id: string;
  /** Undefined: a rejection where the question has no option for it. */
  readonly option: string | undefined;
  readonly state: 'sending' | 'stored' | 'failed';
  /** Why the service has not taken it. */
  readonly problem?: string;
  /** Outcome of an answer that is stored. */
  readonly outcome?: string;
}

/** The whole text of a question that its record shows in part. */
export interface Reading extends Pick<Approval, 'id'> {
  /** Undefined while the service is asked, and after a problem. */
  readonly whole?: Pick<WholeApproval, 'text' | 'call_hash'>;
  /** Why the text could not be read. */
  readonly problem?: string;
}

const pathOf = ({ id, conversation_id: conversation }: Approval): string =>
  `/api/v1/app-conversations/${conversation}/approvals/${encodeURIComponent(id)}`;

/** The answer to the question of the agent of one conversation. */
export class Questions {
  readonly given = signal<GivenAnswer | undefined>(undefined);
  readonly reading = signal<Reading | undefined>(undefined);

  /** Whether a person can have read all tool calls of the question. */
  isRead({ id, complete }: Approval): boolean {
    const { id: known, whole } = this.reading.value ?? {};
    return complete || (id === known && whole !== undefined && whole.call_hash !== null);
  }

  /** Reads the whole text of a question. */
  async read(approval: Approval): Promise<void> {
    const { id } = approval;
    this.reading.value = { id };
    try {
      const whole = await api.get<WholeApproval>(pathOf(approval), undefined);
      this.reading.value = { id, whole };
    } catch (error) {
      this.reading.value = { id, problem: messageOf(error) };
    }
  }

  /** The question that waits for an answer; undefined without one. */
  openOf(conversation: ConversationRecord | undefined): Approval | undefined {
    const asked = conversation?.pending_approval ?? undefined;
    const { id, state } = this.given.value ?? {};
    return asked?.id === id && state === 'stored' ? undefined : asked;
  }

  /** Sends an answer once; the question stays until the service has stored it. */
  async answer(approval: Approval, option: string | undefined, reason: string): Promise<void> {
    const { id } = approval;
    const given = this.given.peek();
    if (given?.id === id && given.state !== 'failed') return;
    this.given.value = { id, option, state: 'sending' };
    try {
      const reading = this.reading.peek();
      const hash = reading?.id === id ? reading.whole?.call_hash : undefined;
      const stored = await api.post<Stored>(pathOf(approval), {
        ...(option === undefined ? { decision: 'reject' } : { option_id: option }),
        ...(reason.trim() === '' ? {} : { reason }),
        ...(hash == null ? {} : { call_hash: hash }),
      });
      const outcome = outcomeOf(stored, approval.sandbox_status === 'RUNNING');
      this.given.value = { id, option, state: 'stored', outcome };
    } catch (error) {
      this.given.value = { id, option, state: 'failed', problem: messageOf(error) };
    }
  }
}
