import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/base/clock';
import type { Sandbox } from '../../resources/sandbox.ts';
import { z } from 'zod';
import {
  answerTo,
  approvalDecisions,
  isSummaryWhole,
  maxAnswers,
  maxReasonLength,
  meaningOf,
  pendingApproval,
  type Approval,
  type ApprovalAnswer,
  type Asking,
  type ClosedApproval,
  type RecordedAnswer,
} from '../../resources/approval.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { notFound } from '../errors/common-problems.ts';
import { invalidField } from '../errors/validation.ts';
import type { Audit } from '../../observability/audit.ts';
import {
  type Route,
  callerOf,
  changeableConversation,
  endpoints,
  ownConversation,
} from '../http/route.ts';
import { Derived } from '../lookup/cache.ts';
import { refuseMoved, storedWithSandbox, writeOnStored } from '../lookup/stored.ts';
import { searchPage, sortedBy } from '../paging/keyset.ts';
import {
  approvalPage,
  approvalSchema,
  noticeOf,
  presentApproval,
  presentWholeApproval,
  wholeApprovalSchema,
} from '../presenters/approval.ts';
import { sandboxViewOf } from '../presenters/conversation.ts';
import { optional, paging, shownText, conversationParams } from '../http/fields.ts';
import { refuseOverQuota } from '../quota/quota.ts';
import { comesBackFromError, refuseUnusable, requestResume } from '../sandboxes/resume.ts';
import { nullableText } from '../presenters/schemas.ts';

const inbox = '/api/v1/approvals';
const base = '/api/v1/app-conversations/{id}/approvals';
const { get, post } = endpoints('approvals');

const decision = z.enum(approvalDecisions);
const reason = optional(shownText(maxReasonLength)).describe('Why not; the model reads it.');
const optionId = z.string().min(1).max(200).describe('The id of one of the options.');
const callHash = optional(z.string().max(64)).describe(
  'The call_hash of the question, where its summary does not have all tool calls.',
);

/** The schema refuses further fields, because one of them may contradict the answer. */
const answerSchema = z.union(
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
type AnswerBody = z.output<typeof answerSchema>;

const answeredSchema = z.object({
  success: z.literal(true),
  state: z
    .enum(['recorded', 'delivered'])
    .describe('recorded: stored, and the agent gets the answer as soon as it runs.'),
  notice: nullableText.describe(
    'Effect of a recorded answer where the agent has forgotten its question; else null.',
  ),
});

/** Maximum wait until the agent has received an answer; a working agent needs milliseconds. */
const deliveryMs = 3_000;

interface ApprovalNeeds {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly lookup: ResourceLookup;
  readonly audit: Audit;
  readonly feeds: {
    readonly conversations: ObjectFeed<CachedConversation>;
    readonly sandboxes: ObjectFeed<Sandbox>;
  };
}

/** Routes that show and answer the agents' requests to use a tool. No answer is automatic. */
export function approvalRoutes(needs: ApprovalNeeds): readonly Route[] {
  const { client, lookup, feeds, audit } = needs;
  const record = (conversation: CachedConversation) =>
    presentApproval(
      conversation,
      sandboxViewOf(conversation, lookup.sandboxIn(conversation)).phase,
    );
  const asking = new Derived((all: readonly CachedConversation[]) =>
    sortedBy(
      all.filter((conversation) => pendingApproval(conversation) !== undefined),
      (conversation) => ({
        key: conversation.status?.approval?.requestedTime ?? '',
        id: conversationIdOf(conversation),
      }),
    ),
  );
  return [
    get(inbox, 'searchApprovals', {
      summary: 'Questions of all agents that wait for an answer, oldest first',
      query: z.object(paging),
      responses: { 200: approvalPage },
      handle: ({ owner, query: { limit, page_id } }) => {
        const { items, next_page_id } = searchPage(asking.of(lookup.conversationsOf(owner)), {
          order: 'approvals',
          descending: false,
          limit,
          page_id,
        });
        return { json: { items: items.flatMap((each) => record(each) ?? []), next_page_id } };
      },
    }),
    get(base, 'getApprovals', {
      summary: 'The question of one conversation that waits for an answer; empty without one',
      params: conversationParams,
      responses: { 200: z.array(approvalSchema) },
      problems: ['not-found'],
      handle: async (call) => {
        const found = record(await ownConversation(lookup, call));
        return { json: found === null ? [] : [found] };
      },
    }),
    get(`${base}/{approval_id}`, 'getApproval', {
      summary: 'A question that waits for an answer, with the whole text of its tool calls',
      params: approvalParams,
      responses: { 200: wholeApprovalSchema },
      problems: ['not-found'],
      handle: async (call) => {
        const known = await ownConversation(lookup, call);
        // The caches do not contain the text of the tool calls.
        const { conversation, sandbox } = await storedWithSandbox(client, known);
        const pending = pendingApproval(conversation);
        if (pending?.id !== call.params.approval_id) throw notFound('approval');
        const cached = cachedConversation(conversation);
        const { phase } = sandboxViewOf(cached, sandbox);
        return { json: presentWholeApproval(cached, pending, phase) };
      },
    }),
    post(`${base}/{approval_id}`, 'answerApproval', {
      summary:
        'Approve or reject a tool call. The first answer counts; a paused sandbox is resumed for it',
      params: approvalParams,
      body: answerSchema,
      responses: { 200: answeredSchema },
      problems: [
        'not-found',
        'wrong-state',
        'conflict',
        'approval-answered',
        'approval-incomplete',
        'approval-withdrawn',
        'quota-exceeded',
      ],
      handle: async ({ body, ...call }) => {
        const id = call.params.approval_id;
        const known = await changeableConversation(lookup, call);
        // The cache may lag behind a question or an answer that another replica has just stored.
        const { conversation, sandbox } = await storedWithSandbox(client, known);
        if (hasAnswer(conversation, id, body)) return delivered;
        const { phase } = sandboxViewOf(cachedConversation(conversation), sandbox);
        const isFailed = sandbox !== undefined && comesBackFromError(lookup, sandbox);
        refuseUnusable(phase, { comesBack: isFailed });
        // The resume comes first, so that a quota that rejects the resume also rejects the answer.
        if ((phase === 'PAUSED' || isFailed) && sandbox !== undefined) {
          refuseOverQuota(lookup, call.owner);
          await requestResume(needs, sandbox);
        }
        const { name } = known.metadata;
        const isNew = answerOf(conversation, id) === undefined;
        await store(client, known, id, { ...body, by: call.owner });
        audit('ApprovalAnswered', {
          ...callerOf(call),
          conversation: name,
          approval: id,
          answer: 'option_id' in body ? body.option_id : body.decision,
        });
        const isClosed = (seen: CachedConversation | undefined) =>
          seen?.status?.closedApprovals?.some((closed) => closed.id === id) === true;
        if (isNew && phase === 'RUNNING')
          await feeds.conversations.settled(name, isClosed, deliveryMs);
        const notice = noticeOf(conversation, phase);
        const recorded = { json: { success: true, state: 'recorded', notice } } as const;
        const after = lookup.cachedConversation(name);
        if (after === undefined || !isClosed(after)) return recorded;
        // Another answer may have closed the question, or the agent may have withdrawn it.
        return hasAnswer(after, id, body) ? delivered : recorded;
      },
    }),
  ];
}

const approvalParams = conversationParams.extend({ approval_id: z.string().max(128) });

const delivered = { json: { success: true, state: 'delivered', notice: null } } as const;

/** Stores the answer at the resourceVersion that was read; does nothing if it is stored already. */
function store(
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
function answerOf(conversation: Asking, id: string): RecordedAnswer | undefined {
  const open = openApproval(conversation, id);
  return open && answerTo(open, conversation);
}

/**
 * Whether the agent already has this answer. Throws if the question is unknown, is withdrawn or has
 * another answer, if the question does not offer this answer, or if the answer approves tool calls
 * that its sender has not read completely.
 */
function hasAnswer(conversation: Asking, id: string, body: AnswerBody): boolean {
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
  const path = `${base}/${encodeURIComponent(open.id)}`;
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

const withdrawn = ({ message }: ClosedApproval): ProblemError =>
  new ProblemError('approval-withdrawn', message ?? 'The agent no longer asks this question.');

const answered = (given: string): ProblemError =>
  new ProblemError('approval-answered', `The answer was already: ${given}.`);
