import { z } from 'zod';
import type { AgentControl } from '../../agent/control.ts';
import { notFound, ProblemError } from '../errors/problem-error.ts';
import { type Route, endpoints } from '../http/route.ts';
import {
  approvalSchema,
  optionIds,
  presentApproval,
  type OptionId,
} from '../presenters/approval.ts';
import type { Services } from '../services.ts';
import { agentProblems, agentReading, type Agent } from './agent-reading.ts';
import { optional, shownText } from './fields.ts';
import { conversationParams } from './schemas.ts';

const base = '/api/v1/app-conversations/{id}/approvals';
const { get, post } = endpoints('approvals');

const choice = z.enum(optionIds);
const reason = optional(shownText(1024)).describe('Why not; the model reads it.');

/** Further fields are refused, because one of them may contradict the answer. */
const answerSchema = z.union(
  [
    z.strictObject({ option_id: choice.describe('The id of one of the options.'), reason }),
    z.strictObject({ decision: choice, reason }),
  ],
  `must be option_id or decision, with ${optionIds.join(' or ')}, and at most a reason beside it`,
);

const answeredSchema = z.object({
  success: z.literal(true),
  state: z.literal('delivered').describe('The agent has the answer.'),
});
const answered = { success: true, state: 'delivered' } as const;

const defaultReason = 'The user has rejected this action.';

/** Questions of an agent whether it may do something, and the answers. Nothing is approved by itself. */
export function approvalRoutes(services: Services): readonly Route[] {
  const { control } = services;
  const reading = agentReading(services);
  return [
    get(base, 'getApprovals', {
      summary:
        'What the agent of a conversation asks; empty where it does not run, or asks nothing',
      params: conversationParams,
      responses: { 200: z.array(approvalSchema) },
      problems: agentProblems,
      handle: async (call) => {
        const asked = reading(
          call,
          ({ endpoint, id }, signal) => control.recentActions(endpoint, id, signal),
          presentApproval,
        );
        const approval = await asked.catch(awayAsNothing);
        return { json: approval === undefined ? [] : [approval] };
      },
    }),
    post(`${base}/{approval_id}`, 'answerApproval', {
      summary: 'Approve or reject what an agent asks. The first answer counts',
      params: conversationParams.extend({ approval_id: z.string().max(128) }),
      body: answerSchema,
      responses: { 200: answeredSchema },
      problems: [...agentProblems, 'approval-answered'],
      handle: async ({ body, params, ...call }) => {
        const { approval_id: approvalId } = params;
        const option = 'option_id' in body ? body.option_id : body.decision;
        return reading(
          { ...call, params },
          (agent, signal) =>
            answer(control, agent, { approvalId, option, reason: body.reason }, signal),
          () => ({ json: answered }),
        );
      },
    }),
  ];
}

function awayAsNothing(error: unknown): undefined {
  if (error instanceof ProblemError && error.code === 'wrong-state') return undefined;
  throw error;
}

interface Answer {
  readonly approvalId: string;
  readonly option: OptionId;
  readonly reason?: string | undefined;
}

/** Gives the answer to the agent, unless the agent has one already. */
async function answer(
  control: Pick<AgentControl, 'recentActions' | 'rejectedActions' | 'respond'>,
  { endpoint, id }: Agent,
  { approvalId, option, reason: why = defaultReason }: Answer,
  signal: AbortSignal,
): Promise<void> {
  const recent = await control.recentActions(endpoint, id, signal);
  if (presentApproval(recent)?.id === approvalId) {
    const accept = option === 'approve';
    await control.respond(endpoint, id, accept ? { accept } : { accept, reason: why }, signal);
    return;
  }
  if (!recent.actions.some((action) => action.id === approvalId)) throw notFound('approval');
  const rejected = await control.rejectedActions(endpoint, id, signal);
  const given: OptionId = rejected.includes(approvalId) ? 'reject' : 'approve';
  if (given !== option)
    throw new ProblemError('approval-answered', `The answer was already: ${given}.`);
}
