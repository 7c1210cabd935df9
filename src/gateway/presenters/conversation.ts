import { z } from 'zod';
import { defaultAgentKind } from '../../resources/agent-settings.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { isBudgetQuestion, pendingApproval } from '../../resources/approval.ts';
import {
  isStartHeld,
  isStartOver,
  startStatusOf,
  undeliveredMessages,
  waitingForBudget,
} from '../../resources/conversation.ts';
import {
  executionStatuses,
  sandboxStatuses,
  type ConversationUsage,
  type ModelWait,
} from '../../resources/conversation-status.ts';
import type { UsageCounters } from '../../resources/usage-record.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { kebabCase } from '../../resources/owner-remedies.ts';
import { SandboxReason, type Sandbox, type SandboxState } from '../../resources/sandbox.ts';
import { viewOfSandbox, type SandboxView } from '../../status/sandbox-phase.ts';
import {
  approvalSchema,
  lostAnswerSchema,
  presentApproval,
  presentLostAnswer,
} from './approval.ts';
import type { Reader } from '../auth/session-keys.ts';
import type { Exposure } from './sandbox.ts';
import {
  countSchema,
  idSchema,
  nullableText,
  pageSchema,
  timestampSchema,
  latest,
  wireTime,
} from './schemas.ts';
import { recordFieldSchemas, shownRecordFields } from './start-fields.ts';
import { transitionsOf } from './start-task.ts';
import { resultDetailOf, type RunResult } from '../../resources/run-result.ts';

const pullRequestSchema = z.object({
  number: z.int(),
  url: z.string(),
  provider: z.string(),
  title: z.string(),
  head: z.string(),
  base: z.string(),
  draft: z.boolean(),
  state: z.enum(['open', 'closed', 'merged']).describe('As the git host reported it last.'),
});
const pullRequestList = z.array(pullRequestSchema);
type PullRequestView = z.output<typeof pullRequestSchema>;

const states = { Open: 'open', Closed: 'closed', Merged: 'merged' } as const;

const presentPullRequests = ({ status }: CachedConversation): PullRequestView[] =>
  (status?.pullRequests ?? []).map(
    ({ number, url, provider, title, head, base, draft, state }) => ({
      number,
      url,
      provider,
      title,
      head,
      base,
      draft,
      state: states[state],
    }),
  );

/** Numbers of the pull requests that a conversation is about, then of those that it has opened. */
const prNumbersOf = ({ spec, status }: CachedConversation): number[] => [
  ...new Set([
    ...(spec.prNumbers ?? []),
    ...(status?.pullRequests ?? []).map(({ number }) => number),
  ]),
];

const runResultSchema = z.object({
  reason: nullableText.describe(
    'Why the result needs attention: tool-failed, tool-rejected, model-not-configured. Null where it does not.',
  ),
  detail: nullableText.describe('The reason as a text for people. Null without a reason.'),
  exit_code: z
    .int()
    .nullable()
    .describe('Exit code of the last command, if that command failed and the agent reports one.'),
  message: nullableText.describe(
    "Beginning of the agent's last message on one line, without known secrets; … marks that there is more.",
  ),
});

const presentRunResult = (
  result: RunResult | undefined,
): z.output<typeof runResultSchema> | null =>
  result === undefined
    ? null
    : {
        reason: result.reason === undefined ? null : kebabCase(result.reason),
        detail: resultDetailOf(result) ?? null,
        exit_code: result.exitCode ?? null,
        message: result.message ?? null,
      };

const metricsSchema = z.object({
  accumulated_cost: z.number().describe('US dollars.'),
  accumulated_token_usage: z.object({ prompt_tokens: z.int(), completion_tokens: z.int() }),
});

const usageCounts = {
  calls: countSchema,
  input_tokens: countSchema.describe('With the cached ones.'),
  cached_input_tokens: countSchema,
  output_tokens: countSchema,
  cost: z.number().describe('In the currency of the usage.'),
};
const usageSchema = z.object({
  ...usageCounts,
  currency: z.literal('USD'),
  by_model: z.array(z.object({ model: z.string(), ...usageCounts })),
});

const usageCountsOf = ({
  calls,
  inputTokens,
  cachedInputTokens,
  outputTokens,
  cost,
}: UsageCounters): { [K in keyof typeof usageCounts]: number } => ({
  calls,
  input_tokens: inputTokens,
  cached_input_tokens: cachedInputTokens,
  output_tokens: outputTokens,
  cost: Number(cost),
});

const presentUsage = (usage: ConversationUsage | undefined): z.output<typeof usageSchema> | null =>
  usage === undefined
    ? null
    : {
        ...usageCountsOf(usage),
        currency: 'USD',
        by_model: usage.byModel.map((model) => ({ model: model.model, ...usageCountsOf(model) })),
      };

const waitReasons = { RateLimit: 'rate-limit', Share: 'share' } as const satisfies Readonly<
  Record<ModelWait['reason'], string>
>;

const modelWaitSchema = z.object({
  until: timestampSchema.describe('When the wait is expected to be over.'),
  reason: z
    .enum(Object.values(waitReasons))
    .describe(
      'rate-limit: the provider limits the rate of the key. share: other calls use up the limits of the key, or of its owner.',
    ),
});

/** A wait is over by its time alone: nothing is written at its end. */
const presentModelWait = (
  wait: ModelWait | undefined,
  nowMs: number,
): z.output<typeof modelWaitSchema> | null =>
  wait === undefined || Date.parse(wait.until) <= nowMs
    ? null
    : { until: wireTime(wait.until), reason: waitReasons[wait.reason] };

export const conversationSchema = z.object({
  id: idSchema,
  created_by_user_id: z.string(),
  sandbox_id: nullableText,
  sandbox_status: z.enum(sandboxStatuses),
  sandbox_status_reason: nullableText.describe(
    'Why, in kebab-case: user, quota, idle, waiting-for-quota, … Null while RUNNING.',
  ),
  execution_status: z
    .enum(executionStatuses)
    .nullable()
    .describe(
      'Null unless the sandbox is RUNNING; in PAUSED it is paused where a pause interrupted a run, and waiting_for_confirmation where the agent waits for an answer.',
    ),
  execution_status_detail: nullableText.describe(
    'The reason of an error, or of a run that was interrupted or given up, as a text for people. Else null.',
  ),
  last_result: runResultSchema
    .nullable()
    .describe(
      'The result of the last run; null while a run is under way, and where none is known.',
    ),
  ...recordFieldSchemas,
  title: z.string(),
  pr_number: z
    .array(z.int())
    .describe('Pull requests that the conversation is about, or has opened.'),
  pull_requests: pullRequestList.describe('Pull requests that were opened, oldest first.'),
  pending_approval: approvalSchema
    .nullable()
    .describe('The question of the agent that waits for an answer.'),
  lost_answer: lostAnswerSchema
    .nullable()
    .describe('The last answer, where it had no effect; null once the next run begins.'),
  llm_model: nullableText,
  agent_kind: z
    .string()
    .describe(
      'Name of an agent of the Agent Client Protocol, as codex, or acp where it has none; else openhands.',
    ),
  agent_name: nullableText.describe(
    'Name of the agent that runs, for people: that of agent_kind, or what the agent has called itself; null before it has.',
  ),
  metrics: metricsSchema.nullable(),
  usage: usageSchema
    .nullable()
    .describe('Calls of models through the relay, at most some seconds old; null: there was none.'),
  model_wait: modelWaitSchema
    .nullable()
    .describe(
      'A call of a model that waits, as last known; null where none does. It is over once its time is past, without another record of the stream.',
    ),
  parent_conversation_id: nullableText,
  sub_conversation_ids: z.array(idSchema),
  public: z.boolean(),
  tags: z.record(z.string(), z.string()),
  workspace: z
    .object({ working_dir: z.string() })
    .nullable()
    .describe('Folder of the conversation in its sandbox; null before the agent works there.'),
  created_at: timestampSchema,
  updated_at: timestampSchema,
  conversation_url: nullableText,
  session_api_key: nullableText,
});
export const conversationList = z.array(conversationSchema);
export const conversationPage = pageSchema(conversationSchema);
export type ConversationRecord = z.output<typeof conversationSchema>;

export interface ConversationSources {
  readonly conversation: CachedConversation;
  /** The sandbox that `status.sandboxName` names; undefined if there is none. */
  readonly sandbox: Sandbox | undefined;
  readonly parent: CachedConversation | undefined;
  readonly children: readonly CachedConversation[];
}

/** The sandbox of a conversation for clients, even before its creation or after a failed start. */
export function sandboxViewOf(
  conversation: Pick<CachedConversation, 'spec' | 'status'>,
  sandbox: Sandbox | undefined,
): SandboxView {
  const { status, spec } = conversation;
  const start = startStatusOf(conversation);
  if (start === 'ERROR')
    return {
      phase: 'ERROR',
      reason: status?.start?.errorCode ?? 'StartFailed',
      message: status?.start?.error ?? '',
    };
  if (sandbox !== undefined && sandbox.spec.owner === spec.owner) return viewOfSandbox(sandbox);
  // The sandbox gets its new owner before the conversation does, and waits for both.
  if (spec.handover !== undefined)
    return {
      phase: 'PAUSED',
      reason: SandboxReason.user,
      message: 'Paused while it moves to another owner.',
    };
  // The cache of conversations may be ahead of the cache of sandboxes, and clients stop polling if
  // a sandbox is MISSING.
  if (isStartHeld({ status }))
    return {
      phase: 'STARTING',
      reason: waitingForBudget,
      message: status?.start?.error ?? 'Waiting for the budget.',
    };
  if (!isStartOver(start) && status?.sandboxStatus !== 'MISSING')
    return { phase: 'STARTING', reason: 'Starting', message: 'Starting.' };
  return viewOfSandbox(undefined);
}

/** The title that the owner has set, else the title from the agent, else the first words. */
export function titleOf({ spec, status, firstWords }: CachedConversation): string {
  const given = spec.title ?? status?.title;
  if (given !== undefined && given !== '') return given;
  return firstWords || 'New conversation';
}

export const updatedAt = (conversation: CachedConversation): string =>
  latest(
    conversation.metadata.creationTimestamp,
    conversation.status?.lastActivityTime,
    conversation.status?.interruption?.time,
    transitionsOf(conversation).at(-1)?.time,
  );

/** Name of the agent; null for an unnamed ACP agent, whose `agentTitle` names a bridge. */
const agentNameOf = ({ agentKind, agentName, agentTitle }: Partial<SandboxState> = {}) =>
  agentName ?? (agentKind === 'acp' ? null : (agentTitle ?? null));

/** The record of a conversation. Without `reader`, the record has no session key. */
export function presentConversation(
  sources: ConversationSources,
  exposure: Exposure,
  reader?: Reader,
  nowMs = Date.now(),
): z.output<typeof conversationSchema> {
  const { conversation, sandbox, parent, children } = sources;
  const { metadata, spec, status } = conversation;
  const id = conversationIdOf(conversation);
  const { phase, reason } = sandboxViewOf(conversation, sandbox);
  const executionStatus = executionStatusOf(conversation, phase);
  const access = phase === 'RUNNING' ? exposure.accessTo(sandbox) : undefined;
  return {
    id,
    created_by_user_id: spec.owner,
    sandbox_id: status?.sandboxName ?? null,
    sandbox_status: phase,
    sandbox_status_reason: phase === 'RUNNING' ? null : kebabCase(reason),
    execution_status: executionStatus,
    // A status that differs from the stored one is derived, so the stored detail does not apply.
    execution_status_detail:
      executionStatus === status?.executionStatus ? (status.executionDetail ?? null) : null,
    last_result:
      executionStatus === 'running' || executionStatus === 'waiting_for_confirmation'
        ? null
        : presentRunResult(status?.lastResult),
    ...shownRecordFields(spec),
    title: titleOf(conversation),
    pr_number: prNumbersOf(conversation),
    pull_requests: presentPullRequests(conversation),
    pending_approval: presentApproval(conversation, phase),
    lost_answer: presentLostAnswer(conversation),
    llm_model: spec.agent?.model ?? null,
    agent_kind: sandbox?.status?.agentName ?? sandbox?.status?.agentKind ?? defaultAgentKind,
    agent_name: agentNameOf(sandbox?.status),
    metrics: metricsView(status?.metrics),
    usage: presentUsage(status?.usage),
    model_wait: phase === 'RUNNING' ? presentModelWait(status?.modelWait, nowMs) : null,
    parent_conversation_id: parent === undefined ? (spec.parent ?? null) : conversationIdOf(parent),
    sub_conversation_ids: children.map(conversationIdOf).sort(),
    public: spec.public ?? false,
    tags: { ...spec.tags },
    workspace: status?.workingDir === undefined ? null : { working_dir: status.workingDir },
    created_at: wireTime(metadata.creationTimestamp),
    updated_at: wireTime(updatedAt(conversation)),
    conversation_url: access === undefined ? null : `${access.agentUrl}/api/conversations/${id}`,
    session_api_key: (reader && access?.sessionKeyFor(reader)) ?? null,
  };
}

/**
 * Statuses in which the agent does nothing. They are not shown while a message is undelivered: a
 * client that polls would take them for the result of that message.
 */
const standing: ReadonlySet<unknown> = new Set(['idle', 'finished', 'paused', 'stuck']);

/** The status of the run as clients see it; null unless the sandbox is RUNNING or PAUSED. */
export function executionStatusOf(conversation: CachedConversation, phase: SandboxView['phase']) {
  const { status } = conversation;
  const asked = pendingApproval(conversation);
  if (phase === 'RUNNING') {
    if (asked !== undefined && isBudgetQuestion(asked) && status?.executionStatus === 'paused')
      return 'waiting_for_confirmation';
    const isToRun =
      standing.has(status?.executionStatus) &&
      undeliveredMessages(conversation).some(({ run }) => run);
    return isToRun ? 'running' : (status?.executionStatus ?? null);
  }
  if (phase !== 'PAUSED') return null;
  if (asked !== undefined) return 'waiting_for_confirmation';
  // This includes an interruption in progress: the sandbox is PAUSED before its agent stops.
  const { interruption, executionStatus } = status ?? {};
  return interruption !== undefined || executionStatus === 'paused' || executionStatus === 'running'
    ? 'paused'
    : null;
}

const metricsView = (
  metrics: NonNullable<CachedConversation['status']>['metrics'],
): z.output<typeof metricsSchema> | null =>
  metrics === undefined
    ? null
    : {
        accumulated_cost: Number(metrics.accumulatedCost ?? 0) || 0,
        accumulated_token_usage: {
          prompt_tokens: metrics.promptTokens ?? 0,
          completion_tokens: metrics.completionTokens ?? 0,
        },
      };
