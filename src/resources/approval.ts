import { z } from 'zod';
import { count, described, optional, text, timestamp, validations } from './schema.ts';
import { budgetCurrencies, decimalText } from './usage-counters.ts';

/** Kinds of tool calls about which an agent asks; `budget` is a question of the operator. */
export const approvalKinds = ['execute', 'edit', 'other', 'budget'] as const;
export type ApprovalKind = (typeof approvalKinds)[number];

/** Persons who may approve a raise of a budget: also the owner, or an admin alone. */
export const raiseDeciders = ['Owner', 'Admin'] as const;

export const optionKinds = ['allow_once', 'allow_always', 'reject_once', 'reject_always'] as const;

export const approvalDecisions = ['approve', 'reject'] as const;

export const maxOptions = 20;
/** Maximum characters of the id, and of the name, of an option. */
export const maxOptionLength = 200;
export const maxApprovalTitle = 200;
export const maxApprovalTool = 200;
const maxApprovalSummary = 4096;
/** Maximum characters of the text of a question; a longer one can not be approved. */
export const maxApprovalText = 32_768;
export const maxAnswers = 16;
export const maxReasonLength = 1024;
const maxClosed = 8;

const approvalId = () =>
  z
    .string()
    .min(1)
    .max(128)
    .regex(/^[\x21-\x7e]+$/);
const optionId = () => z.string().min(1).max(maxOptionLength);

const optionSchema = z.object({
  id: described(optionId(), 'Identifier of the option, as an answer names it.'),
  name: described(text(maxOptionLength), 'Name of the option for people.'),
  kind: described(
    z.enum(optionKinds),
    'Effect of the option: for this tool call alone, or also for later ones.',
  ),
});
export type ApprovalOption = z.output<typeof optionSchema>;

/** An entry of `spec.approvals`. A stored entry never changes, so the first valid one is final. */
export const approvalAnswerSchema = described(
  z
    .object({
      id: described(approvalId(), 'Identifier of the question: status.approval.id.'),
      option: optional(optionId(), 'Identifier of one of the options of the question.'),
      decision: optional(
        z.enum(approvalDecisions),
        'approve: allow this tool call alone. reject: reject it; the turn of an agent without such an option is cancelled.',
      ),
      reason: optional(text(maxReasonLength), 'Reason of a rejection, which the model reads.'),
      by: optional(text(253), 'Person or program that answers.'),
    })
    .meta(
      validations(
        {
          rule: 'has(self.option) != has(self.decision)',
          message: 'exactly one of option and decision is required',
        },
        { rule: 'self == oldSelf', message: 'an answer is immutable: the first one counts' },
      ),
    ),
  'Answer to a question of the agent.',
);
export type ApprovalAnswer = z.output<typeof approvalAnswerSchema>;

export const approvalSchema = z.object({
  id: described(approvalId(), 'Identifier of the question.'),
  title: described(text(maxApprovalTitle), 'First tool call, or the question, on one line.'),
  kind: described(
    z.enum(approvalKinds),
    'execute for a command, edit for a change of files, budget for a budget that is used up, else other.',
  ),
  tool: described(text(maxApprovalTool), 'Names of the tools.'),
  summary: described(
    text(maxApprovalSummary),
    'All tool calls with their arguments; head and tail of that text where it is longer. Characters without a glyph are escaped, and secrets are hidden.',
  ),
  text: optional(
    text(maxApprovalText),
    'Whole text of all tool calls where summary is a part of it. Empty: the summary is the whole text.',
  ),
  complete: optional(
    z.boolean(),
    'Whether text, or summary where there is no text, is the whole text. The operator accepts no approval of a question without a whole text.',
  ),
  options: described(z.array(optionSchema).max(maxOptions), 'Possible answers.'),
  requestedTime: described(timestamp(), 'Time at which the operator saw the question.'),
  callHash: described(
    text(64),
    'SHA-256 of the tools and their whole arguments, as the agent has sent them. A call that the agent requests again has the same one.',
  ),
  agentEpoch: described(count(), 'Value of agentEpoch of the sandbox when the agent asked.'),
  kept: optional(
    z.boolean(),
    'True: the agent still asks the question after its container has ended. Absent: the agent forgets it then, and an answer counts when the agent asks for the same call again.',
  ),
  raise: optional(
    z.object({
      amount: described(decimalText(), 'Amount that an approval adds to the budget.'),
      unit: described(z.enum(budgetCurrencies), 'Unit of the amount: US dollars or tokens.'),
      decidedBy: described(
        z.enum(raiseDeciders),
        'Owner: the owner may approve. Admin: only an admin may.',
      ),
    }),
    'Raise of the budget, with the kind budget only.',
  ),
  answer: optional(
    z.object({
      accept: described(z.boolean(), 'Whether the tool call is allowed.'),
      option: optional(
        optionId(),
        'Option of the answer. Absent: the agent offers none that rejects, so its turn is cancelled.',
      ),
      reason: optional(text(maxReasonLength), 'Reason of a rejection.'),
      by: optional(text(253), 'Person or program that has answered.'),
      resumeTime: optional(
        timestamp(),
        'Time at which the operator resumed the sandbox for the answer.',
      ),
      sentTime: optional(
        timestamp(),
        'Time from which the agent may have the answer. The operator stores it before it sends the answer.',
      ),
    }),
    'First valid answer. Absent until there is one.',
  ),
});
export type Approval = z.output<typeof approvalSchema>;
export type RecordedAnswer = NonNullable<Approval['answer']>;

export const approvalOutcomes = ['Approved', 'Rejected', 'Withdrawn'] as const;

export const closedApprovalSchema = z.object({
  id: described(approvalId(), 'Identifier of the question.'),
  outcome: described(
    z.enum(approvalOutcomes),
    'Withdrawn: the agent no longer asks, and has not had the answer from the operator.',
  ),
  option: optional(optionId(), 'Option of the answer.'),
  time: described(timestamp(), 'Time at which the operator closed the question.'),
  message: optional(
    text(1024),
    'Effect of the answer to a question that was withdrawn. Absent when there was no answer.',
  ),
});
export type ClosedApproval = z.output<typeof closedApprovalSchema>;

export const closedApprovalsSchema = z.array(closedApprovalSchema).max(maxClosed);

/** The question without its text, which caches do not hold. */
export function withoutText(approval: Approval): Approval {
  if (approval.text === '') return approval;
  const { text: _text, ...rest } = approval;
  return rest;
}

/** Whether the summary shows the whole text of the question. */
export const isSummaryWhole = ({ complete, text: whole }: Approval): boolean =>
  complete === true && whole === '';

/** The fields of a conversation that show whether a question waits for an answer of a person. */
export interface Asking {
  readonly spec: { readonly approvals?: readonly ApprovalAnswer[] | undefined };
  readonly status?:
    | {
        readonly approval?: Approval | undefined;
        readonly closedApprovals?: readonly ClosedApproval[] | undefined;
      }
    | undefined;
}

const onceKinds = { approve: 'allow_once', reject: 'reject_once' } as const;

/** The effect of an answer; undefined for an answer that the question does not allow. */
export function meaningOf(
  { options, complete }: Pick<Approval, 'options' | 'complete'>,
  { option: optionId, decision, reason, by }: Omit<ApprovalAnswer, 'id'>,
): RecordedAnswer | undefined {
  const found = options.find(({ id, kind }) =>
    decision === undefined ? id === optionId : kind === onceKinds[decision],
  );
  // A rejection is always possible. Without an option for it, the agent's prompt is cancelled.
  if (found === undefined && decision !== 'reject') return undefined;
  const accept = found?.kind.startsWith('allow') === true;
  // The stored text is incomplete, so no person can have read the whole call.
  if (accept && complete !== true) return undefined;
  return {
    accept,
    ...(found === undefined ? {} : { option: found.id }),
    ...(reason === undefined ? {} : { reason }),
    ...(by === undefined ? {} : { by }),
  };
}

/** The recorded answer to the question, else the answer in the spec; undefined if there is none. */
export function answerTo(approval: Approval, { spec }: Asking): RecordedAnswer | undefined {
  if (approval.answer !== undefined) return approval.answer;
  const given = spec.approvals?.find(({ id }) => id === approval.id);
  return given === undefined ? undefined : meaningOf(approval, given);
}

/** Explains to people what an answer does if the agent has forgotten its question. */
export const forgottenNotice =
  'The agent was stopped and has forgotten this question. It has to ask again; your answer counts for the same call.';

/** Whether the agent has forgotten its question, because its container has ended since it asked. */
export const isForgotten = (
  {
    approval,
    executionStatus,
  }: { readonly approval?: Approval | undefined; readonly executionStatus?: string | undefined },
  sandboxStatus: string,
): boolean =>
  approval !== undefined &&
  approval.kept !== true &&
  approval.answer?.sentTime === undefined &&
  (sandboxStatus !== 'RUNNING' || executionStatus !== 'waiting_for_confirmation');

/** Whether the operator asks, because a budget is used up. The agent knows nothing of it. */
export const isBudgetQuestion = ({ kind }: Pick<Approval, 'kind'>): boolean => kind === 'budget';

/** The person who may approve: a raise that the question does not leave to the owner is an admin's. */
export const deciderOf = ({ kind, raise }: Approval): (typeof raiseDeciders)[number] =>
  isBudgetQuestion({ kind }) ? (raise?.decidedBy ?? 'Admin') : 'Owner';

/** Effect of an answer to a question about a budget, for people. */
export const budgetNotice = {
  approve: 'The budget is raised, and the run then continues where it was.',
  reject: 'The conversation stays paused. A message continues it as far as the budget allows.',
} as const;

/** Whether a person has answered the agent, and the answer was not sent to the agent yet. */
export const hasAnswerToGive = (asking: Asking): boolean => {
  const { approval } = asking.status ?? {};
  return (
    approval !== undefined &&
    !isBudgetQuestion(approval) &&
    approval.answer?.sentTime === undefined &&
    answerTo(approval, asking) !== undefined
  );
};

/** The question that waits for a person; undefined if there is none. */
export function pendingApproval(asking: Asking): Approval | undefined {
  const { approval } = asking.status ?? {};
  return approval === undefined || answerTo(approval, asking) !== undefined ? undefined : approval;
}

/** Adds a closed question, and removes the oldest ones beyond `maxClosed`. */
export const withClosed = (
  closed: readonly ClosedApproval[] | undefined,
  one: ClosedApproval,
): ClosedApproval[] => [...(closed ?? []).filter(({ id }) => id !== one.id), one].slice(-maxClosed);
