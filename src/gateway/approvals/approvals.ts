import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/base/clock';
import type { Sandbox } from '../../resources/sandbox.ts';
import { z } from 'zod';
import { pendingApproval } from '../../resources/approval.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { notFound } from '../errors/common-problems.ts';
import type { Audit } from '../../observability/audit.ts';
import {
  answerOf,
  answerSchema,
  approvalsPath,
  budgetEffectOf,
  hasAnswer,
  storeAnswer,
} from './answer.ts';
import {
  type Route,
  callerOf,
  changeableConversation,
  endpoints,
  ownConversation,
} from '../http/route.ts';
import { Derived } from '../lookup/cache.ts';
import { storedWithSandbox } from '../lookup/stored.ts';
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
import { paging, conversationParams } from '../http/fields.ts';
import { refuseOverQuota } from '../quota/quota.ts';
import { comesBackFromError, refuseUnusable, requestResume } from '../sandboxes/resume.ts';
import { nullableText } from '../presenters/schemas.ts';

const inbox = '/api/v1/approvals';
const base = approvalsPath;
const { get, post } = endpoints('approvals');

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

/**
 * Routes that show and answer the agents' requests to use a tool, and the questions whether a run
 * may go on whose budget is used up. No answer is automatic.
 */
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
        'Approve or reject a tool call, or a raise of a budget. The first answer counts; a paused sandbox is resumed for it',
      params: approvalParams,
      body: answerSchema,
      responses: { 200: answeredSchema },
      problems: [
        'not-found',
        'forbidden',
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
        const budgetEffect = budgetEffectOf(conversation, id, body, call.principal.role);
        const { phase } = sandboxViewOf(cachedConversation(conversation), sandbox);
        const isFailed = sandbox !== undefined && comesBackFromError(lookup, sandbox);
        refuseUnusable(phase, { comesBack: isFailed });
        // The resume comes first, so that a quota that rejects the resume also rejects the answer.
        // After a raise, the operator resumes the sandbox.
        const isResumed = budgetEffect === undefined && (phase === 'PAUSED' || isFailed);
        if (isResumed && sandbox !== undefined) {
          refuseOverQuota(lookup, call.owner);
          await requestResume(needs, sandbox);
        }
        const { name } = known.metadata;
        const isNew = answerOf(conversation, id) === undefined;
        await storeAnswer(client, known, id, { ...body, by: call.owner });
        audit('ApprovalAnswered', {
          ...callerOf(call),
          conversation: name,
          approval: id,
          answer: 'option_id' in body ? body.option_id : body.decision,
        });
        const isClosed = (seen: CachedConversation | undefined) =>
          seen?.status?.closedApprovals?.some((closed) => closed.id === id) === true;
        if (isNew && (phase === 'RUNNING' || budgetEffect !== undefined))
          await feeds.conversations.settled(name, isClosed, deliveryMs);
        const notice = budgetEffect ?? noticeOf(conversation, phase);
        const recorded = { json: { success: true, state: 'recorded', notice } } as const;
        const after = lookup.cachedConversation(name);
        if (after === undefined || !isClosed(after)) return recorded;
        // Another answer may have closed the question, or the agent may have withdrawn it.
        return hasAnswer(after, id, body) && budgetEffect === undefined ? delivered : recorded;
      },
    }),
  ];
}

const approvalParams = conversationParams.extend({ approval_id: z.string().max(128) });

const delivered = { json: { success: true, state: 'delivered', notice: null } } as const;
