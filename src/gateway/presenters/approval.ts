import { z } from 'zod';
import {
  approvalKinds,
  forgottenNotice,
  isForgotten,
  optionKinds,
  pendingApproval,
  type Approval,
} from '../../resources/approval.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { sandboxStatuses, type SandboxStatus } from '../../resources/conversation-status.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { idSchema, nullableText, pageSchema, timestampSchema, wireTime } from './schemas.ts';

export const approvalSchema = z.object({
  id: z.string(),
  conversation_id: idSchema,
  title: z.string().describe('What the agent wants to do, in a line.'),
  kind: z.enum(approvalKinds),
  tool: z.string().describe('Names of the tools.'),
  summary: z.string().describe('The input of the tools, up to 4096 characters.'),
  options: z.array(z.object({ id: z.string(), name: z.string(), kind: z.enum(optionKinds) })),
  requested_at: timestampSchema,
  sandbox_status: z.enum(sandboxStatuses),
  notice: nullableText.describe(
    'Effect of an answer where the agent has forgotten its question; else null.',
  ),
});
export const approvalPage = pageSchema(approvalSchema);
export type ApprovalRecord = z.output<typeof approvalSchema>;

/** The question of a conversation that waits for an answer; null where none does. */
export function presentApproval(
  conversation: CachedConversation,
  sandboxStatus: SandboxStatus,
): ApprovalRecord | null {
  const pending = pendingApproval(conversation);
  return pending === undefined ? null : recordOf(conversation, pending, sandboxStatus);
}

const recordOf = (
  conversation: CachedConversation,
  { id, title, kind, tool, summary, options, requestedTime }: Approval,
  sandboxStatus: SandboxStatus,
): ApprovalRecord => ({
  id,
  conversation_id: conversationIdOf(conversation),
  title,
  kind,
  tool,
  summary,
  options: [...options],
  requested_at: wireTime(requestedTime),
  sandbox_status: sandboxStatus,
  notice: noticeOf(conversation, sandboxStatus),
});

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

/** The answer that had no effect, until the next run begins; null without one. */
export function presentLostAnswer({
  status,
}: Pick<CachedConversation, 'status'>): z.output<typeof lostAnswerSchema> | null {
  const lost = status?.closedApprovals?.find(({ id }) => id === status.lostAnswer);
  if (lost?.message === undefined) return null;
  return { approval_id: lost.id, message: lost.message, time: wireTime(lost.time) };
}
