import { z } from 'zod';
import type { KubeClient } from '@conversation-operator/kube/client';
import {
  answerTo,
  approvalDecisions,
  budgetNotice,
  deciderOf,
  isBudgetQuestion,
  isSummaryWhole,
  maxAnswers,
  maxReasonLength,
  meaningOf,
  type Approval,
  type ApprovalAnswer,
  type Asking,
  type ClosedApproval,
  type RecordedAnswer,
} from '../../resources/approval.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../resources/conversation.ts';
import { notFound, onlyAdmin } from '../errors/common-problems.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { invalidField } from '../errors/validation.ts';
import { optional, shownText } from '../http/fields.ts';
import { refuseMoved, writeOnStored } from '../lookup/stored.ts';

/** Path of the questions of a conversation. */
export const approvalsPath = '/api/v1/app-conversations/{id}/approvals';

const decision = z.enum(approvalDecisions);
const reason = optional(shownText(maxReasonLength)).describe('Why not; the model reads it.');
const optionId = z.string().min(1).max(200).describe('The id of one of the options.');
const callHash = optional(z.string().max(64)).describe(
  'The call_hash of the question, where its summary does not have all tool calls.',
);

/** The schema refuses further fields, because one of them may contradict the answer. */
export const answerSchema = z.union(
  [
    z.strictObject({ option_id: optionId, reason, call_hash: callHash }),
    z.strictObject({
      decision: decision.describe('For this tool call alone.'),
      reason,
      call_hash: callHash,
    }),
  ],
  `must be option_id, or decision with ${approvalDecisions.join(' or ')}, and at most a reason and a call_hash beside it`,
);
export type AnswerBody = z.output<typeof answerSchema>;

/** Stores the answer at the resourceVersion that was read; does nothing if it is stored already. */
export function storeAnswer(
  client: KubeClient,
  known: CachedConversation,
  id: string,
  given: AnswerBody & { readonly by: string },
): Promise<unknown> {
  const { namespace, name } = known.metadata;
  return writeOnStored(
    () => client.get(conversations, namespace, name),
    async (stored) => {
      refuseMoved('conversation', stored, known);
      if (hasAnswer(stored, id, given) || answerOf(stored, id) !== undefined) return;
      const { reason: why, by } = given;
      const answer: ApprovalAnswer = {
        id,
        ...('option_id' in given ? { option: given.option_id } : { decision: given.decision }),
        ...(why === undefined ? {} : { reason: why }),
        by,
      };
      const { approvals = [] } = stored.spec;
      const write = ({ metadata: { resourceVersion } }: Conversation, list: ApprovalAnswer[]) =>
        client.mergePatch(conversations, namespace, name, {
          metadata: { resourceVersion },
          spec: { approvals: list },
        });
      const others = approvals.filter((other) => other.id !== id);
      // If `spec.approvals` has an entry with this id that does not answer the question, that entry
      // is removed first, because the API server rejects a change of an entry.
      const version = others.length === approvals.length ? stored : await write(stored, others);
      await write(version, [...others.slice(1 - maxAnswers), answer]);
    },
  );
}

const openApproval = ({ status }: Asking, id: string): Approval | undefined =>
  status?.approval?.id === id ? status.approval : undefined;

/** The answer to the question `id`; undefined if the question is not open or has no answer. */
export function answerOf(conversation: Asking, id: string): RecordedAnswer | undefined {
  const open = openApproval(conversation, id);
  return open && answerTo(open, conversation);
}

/**
 * Whether the agent already has this answer. Throws if the question is unknown, is withdrawn or has
 * another answer, if the question does not offer this answer, or if the answer approves tool calls
 * that its sender has not read completely.
 */
export function hasAnswer(conversation: Asking, id: string, body: AnswerBody): boolean {
  const closed = conversation.status?.closedApprovals?.find((one) => one.id === id);
  if (closed?.outcome === 'Withdrawn') throw withdrawn(closed);
  if (closed !== undefined) {
    const isSame =
      'option_id' in body
        ? body.option_id === closed.option
        : (body.decision === 'approve') === (closed.outcome === 'Approved');
    if (isSame) return true;
    throw answered(closed.option ?? closed.outcome.toLowerCase());
  }
  const open = openApproval(conversation, id);
  if (open === undefined) throw notFound('approval');
  const answer = 'option_id' in body ? { option: body.option_id } : { decision: body.decision };
  refuseUnread(open, answer, body.call_hash);
  const wanted = meaningOf(open, answer);
  if (wanted === undefined)
    throw 'option_id' in body
      ? invalidField(
          'body.option_id',
          `must be one of: ${open.options.map((option) => option.id).join(', ')}`,
        )
      : invalidField('body.decision', 'the agent offers no way to approve this call alone');
  const given = answerTo(open, conversation);
  if (given !== undefined && (given.accept !== wanted.accept || given.option !== wanted.option))
    throw answered(given.option ?? 'reject');
  return false;
}

/** Throws if an answer approves tool calls that are unreadable or were shown only in part. */
export function refuseUnread(
  open: Approval,
  answer: Omit<ApprovalAnswer, 'id'>,
  hash?: string,
): void {
  if (meaningOf({ ...open, complete: true }, answer)?.accept !== true) return;
  const path = `${approvalsPath}/${encodeURIComponent(open.id)}`;
  if (open.complete !== true)
    throw new ProblemError(
      'approval-incomplete',
      `The tool calls can not be read whole, so they can only be rejected. GET ${path} has what can be shown of them, and why.`,
    );
  const isRead = hash === undefined ? isSummaryWhole(open) : hash === open.callHash;
  if (!isRead)
    throw new ProblemError(
      'approval-incomplete',
      `Read the tool calls with GET ${path}, and repeat the answer with the call_hash of that.`,
    );
}

/**
 * The effect of an answer to an open question about a budget; undefined for a question of an agent.
 * Throws 403 if the answer raises a budget that only an admin may raise.
 */
export function budgetEffectOf(
  conversation: Asking,
  id: string,
  body: AnswerBody,
  role: 'user' | 'admin',
): string | undefined {
  const open = openApproval(conversation, id);
  if (open === undefined || !isBudgetQuestion(open)) return undefined;
  const answer = 'option_id' in body ? { option: body.option_id } : { decision: body.decision };
  if (meaningOf(open, answer)?.accept !== true) return budgetNotice.reject;
  if (deciderOf(open) === 'Admin' && role !== 'admin') throw onlyAdmin('allow this raise');
  return budgetNotice.approve;
}

const withdrawn = ({ message }: ClosedApproval): ProblemError =>
  new ProblemError('approval-withdrawn', message ?? 'The agent no longer asks this question.');

const answered = (given: string): ProblemError =>
  new ProblemError('approval-answered', `The answer was already: ${given}.`);
