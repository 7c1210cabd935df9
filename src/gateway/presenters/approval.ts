import { z } from 'zod';
import {
  approvalKinds,
  deciderOf,
  forgottenNotice,
  isForgotten,
  isSummaryWhole,
  optionKinds,
  pendingApproval,
  raiseDeciders,
  type Approval,
} from '../../resources/approval.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { sandboxStatuses, type SandboxStatus } from '../../resources/conversation-status.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { idSchema, nullableText, pageSchema, timestampSchema, wireTime } from './schemas.ts';

export const approvalSchema = z.object({
  id: z.string(),
  conversation_id: idSchema,
  title: z.string().describe('The first tool call, or the question about a budget, on one line.'),
  kind: z
    .enum(approvalKinds)
    .describe('budget: a budget is used up. The others: what the tool does.'),
  tool: z.string().describe('Names of the tools.'),
  summary: z
    .string()
    .describe(
      'All tool calls with their arguments; head and tail of that text where it is longer.',
    ),
  complete: z
    .boolean()
    .describe('Whether summary has all tool calls. If not, read text before an approval.'),
  options: z.array(z.object({ id: z.string(), name: z.string(), kind: z.enum(optionKinds) })),
  requested_at: timestampSchema,
  sandbox_status: z.enum(sandboxStatuses),
  decided_by: z
    .enum(raiseDeciders)
    .describe('Who may approve. Admin: only with the role admin, because a budget is to grow.'),
  notice: nullableText.describe(
    'Effect of an answer where the agent has forgotten its question; else null.',
  ),
});
export const wholeApprovalSchema = approvalSchema.extend({
  text: z.string().describe('All tool calls with their arguments.'),
  call_hash: z
    .string()
    .nullable()
    .describe(
      'Hash of the tool calls, which an approval repeats where summary does not have all of them. null: the calls can not be read whole, and can only be rejected.',
    ),
});
export const approvalPage = pageSchema(approvalSchema);
export type ApprovalRecord = z.output<typeof approvalSchema>;
export type WholeApprovalRecord = z.output<typeof wholeApprovalSchema>;

/** The question of the agent that waits for an answer; null if there is none. */
export function presentApproval(
  conversation: CachedConversation,
  sandboxStatus: SandboxStatus,
): ApprovalRecord | null {
  const pending = pendingApproval(conversation);
  return pending === undefined ? null : recordOf(conversation, pending, sandboxStatus);
}

/** The open question with its whole text. Caches shorten `approval`, so it must not be cached. */
export const presentWholeApproval = (
  conversation: CachedConversation,
  approval: Approval,
  sandboxStatus: SandboxStatus,
): WholeApprovalRecord => ({
  ...recordOf(conversation, approval, sandboxStatus),
  text: approval.text || approval.summary,
  call_hash: approval.complete === true ? approval.callHash : null,
});

const recordOf = (
  conversation: CachedConversation,
  approval: Approval,
  sandboxStatus: SandboxStatus,
): ApprovalRecord => {
  const { id, title, kind, tool, summary, options, requestedTime } = approval;
  return {
    id,
    conversation_id: conversationIdOf(conversation),
    title,
    kind,
    tool,
    summary,
    complete: isSummaryWhole(approval),
    options: [...options],
    requested_at: wireTime(requestedTime),
    sandbox_status: sandboxStatus,
    decided_by: deciderOf(approval),
    notice: noticeOf(conversation, sandboxStatus),
  };
};

/** Effect of an answer to a question that the agent has forgotten; null for any other question. */
export const noticeOf = (
  { status = {} }: Pick<CachedConversation, 'status'>,
  sandboxStatus: SandboxStatus,
): string | null => (isForgotten(status, sandboxStatus) ? forgottenNotice : null);

export const lostAnswerSchema = z.object({
  approval_id: z.string(),
  message: z.string().describe('Which answer it was, and why it had no effect.'),
  time: timestampSchema,
});

/** The last answer to the agent, if it had no effect and the next run has not begun; else null. */
export function presentLostAnswer({
  status,
}: Pick<CachedConversation, 'status'>): z.output<typeof lostAnswerSchema> | null {
  const lost = status?.closedApprovals?.find(({ id }) => id === status.lostAnswer);
  if (lost?.message === undefined) return null;
  return { approval_id: lost.id, message: lost.message, time: wireTime(lost.time) };
}
