import type { Facts } from '../../../src/sentences/facts.ts';
import type { ConversationRecord } from '../../../src/web/wire.ts';
import { aConversation, aSandbox, aTask, idOf } from '../../support/page-records.ts';

type Fields = Partial<ConversationRecord>;

/** Facts about a conversation whose sandbox runs. */
export const running = (fields: Fields = {}): Facts => ({
  conversation: aConversation(1, fields),
  sandbox: aSandbox(1),
});

/** Facts about a conversation without a run, and the text of its sandbox. */
export const withSandbox = (
  sandbox_status: ConversationRecord['sandbox_status'],
  sandbox_status_reason: string,
  status_detail: string | null = null,
  fields: Fields = {},
): Facts => ({
  conversation: aConversation(1, {
    sandbox_status,
    sandbox_status_reason,
    execution_status: null,
    ...fields,
  }),
  sandbox: aSandbox(1, { status: sandbox_status, status_detail }),
});

/** Fields of a conversation whose agent asks whether it may run a command. */
export const asking = (command: string): Fields => ({
  execution_status: 'waiting_for_confirmation',
  pending_approval: {
    id: 'q1',
    conversation_id: idOf(1),
    title: command,
    kind: 'execute',
    tool: 'terminal',
    summary: command,
    complete: true,
    options: [],
    sandbox_status: 'RUNNING',
    decided_by: 'Owner',
    requested_at: '2026-01-01T11:48:00.000000Z',
    notice: null,
  },
});

/** Fields of a conversation whose last answer had no effect. */
export const lostAnswer: Fields = {
  lost_answer: {
    approval_id: 'q1',
    time: '2026-01-01T11:48:00.000000Z',
    message: 'The answer “approve” to “make” had no effect: the agent was stopped.',
  },
};

type Result = NonNullable<ConversationRecord['last_result']>;

/** Fields of a conversation whose run is over with this result. */
export const ended = (result: Partial<Result>, fields: Fields = {}): Fields => ({
  execution_status: 'finished',
  updated_at: '2026-01-01T10:00:00.000000Z',
  last_result: { reason: null, detail: null, exit_code: null, message: null, ...result },
  ...fields,
});

/** The result of a run whose last command has failed. */
export const failedCommand: Partial<Result> = {
  reason: 'tool-failed',
  detail: 'The last command failed: exit code 3.',
  exit_code: 3,
  message: 'Block 1 failed, so I stopped there.',
};

/** Facts about a start whose conversation the stream has not brought yet. */
export const started = (fields: Parameters<typeof aTask>[1] = {}): Facts => ({
  task: aTask(1, fields),
});
