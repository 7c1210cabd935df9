import type { AgentConversation } from '../../../agent/agent.ts';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { beginningOf } from '../../../resources/plain-text.ts';
import { isWithin } from '../../elapsed-times.ts';
import {
  Interruption,
  interruptionReason,
  isResumeUnconfirmed,
  pendingInterruption,
  unseenInterruptionEpoch,
  withUserPause,
  type InterruptedRun,
  type SandboxInterruptions,
} from './interruption.ts';
import { abandonedReasonOf, messageOf, nextInterruption, resumed } from './run-resume.ts';

/** Maximum time by which an agent's clock may be ahead. A later time is not stored. */
const maxClockSkewMs = 24 * 3_600_000;

const metricsOf = ({ metrics }: AgentConversation) =>
  metrics === undefined
    ? {}
    : {
        metrics: {
          accumulatedCost: metrics.accumulatedCost.toFixed(6),
          promptTokens: metrics.promptTokens,
          completionTokens: metrics.completionTokens,
        },
      };

/** The fields of the status that an agent reports, except the status of the run. */
export const reportedFields = (agent: AgentConversation, nowMs: number) => ({
  ...(agent.title === undefined ? {} : { title: agent.title }),
  ...(agent.updatedAt === undefined || Date.parse(agent.updatedAt) > nowMs + maxClockSkewMs
    ? {}
    : { lastActivityTime: agent.updatedAt }),
  ...metricsOf(agent),
});

export interface ExecutionDecision {
  readonly status: ConversationStatus;
  /** Whether the operator has to resume the run, because its owner did not interrupt it. */
  readonly resume: boolean;
}

/**
 * Time after the sandbox is RUNNING again in which a report about an interrupted run may be
 * outdated, because the agent stores its state late. The time after a resume of the run is longer,
 * because the agent first loads the conversation, for up to 1.2 s.
 */
const staleMs = 1_500;
const staleAfterResumeMs = 5_000;

/** When openhands-agent-server 1.58 restarts, it loses the model's request for an action. */
const reloadedWhileWaiting =
  'The agent was restarted while an action waited for confirmation. Whatever the answer is, the agent forgets that the model requested the action, and some models refuse to proceed.';

interface ReportFacts {
  /** `agentEpoch` of the sandbox. The agent made the report in this epoch or later. */
  readonly agentEpoch: number;
  readonly nowMs: number;
  readonly interruptions?: SandboxInterruptions;
  /** Whether the owner has requested the run, so that it resumes in spite of the owner's pause. */
  readonly runRequested?: boolean;
  /** Whether agents of this kind still know their question in a new container. */
  readonly keepsQuestions?: boolean;
}

export function withAgentReport(
  status: ConversationStatus,
  agent: AgentConversation,
  facts: ReportFacts,
): ExecutionDecision {
  const { agentEpoch, nowMs, interruptions = {}, runRequested = false } = facts;
  const { interruption: _before, executionDetail, ...rest } = status;
  const now = new Date(nowMs).toISOString();
  const reported = agent.executionStatus ?? 'error';
  const unseenEpoch = unseenInterruptionEpoch(status, agent.id, interruptions);
  const pending = pendingInterruption(status);
  // The run was running at the last poll, or a pause has interrupted a run since then.
  const wasRunning = status.executionStatus === 'running' || unseenEpoch !== undefined;
  const isNewEpoch = status.agentEpoch !== agentEpoch;
  // A run that was interrupted before its first step, or whose action was rejected, is `idle`.
  // The agent counts a run that its model has refused as over, and is asked to go on with it.
  const isBudgetEnd =
    pending?.reason === Interruption.budget &&
    (agent.executionStatus === 'finished' || agent.executionStatus === 'stuck');
  const isStopped =
    isBudgetEnd ||
    agent.executionStatus === 'paused' ||
    agent.executionStatus === 'error' ||
    (agent.executionStatus === 'idle' &&
      (pending !== undefined ||
        status.interruption?.lastResumeTime !== undefined ||
        (wasRunning && isNewEpoch)));
  const isUnseen = wasRunning && pending === undefined && isNewEpoch && isStopped;
  const isUnconfirmed = isResumeUnconfirmed(status, pending, agentEpoch);
  const interruption =
    isUnseen || isUnconfirmed
      ? nextInterruption(
          status.interruption,
          interruptionReason(unseenEpoch ?? status.agentEpoch, interruptions),
          now,
        )
      : withUserPause(status, interruptions);
  const isSame =
    reported === status.executionStatus &&
    (!isNewEpoch || executionDetail === reloadedWhileWaiting);
  const observed = (
    executionStatus: ConversationStatus['executionStatus'],
    { kept, detail }: { kept?: InterruptedRun | undefined; detail?: string | undefined } = {},
  ): ConversationStatus => ({
    ...rest,
    executionStatus,
    agentEpoch,
    ...(kept === undefined ? {} : { interruption: kept }),
    ...(detail === undefined ? {} : { executionDetail: detail }),
    ...reportedFields(agent, nowMs),
  });
  const settled = (next: ConversationStatus): ExecutionDecision => ({
    status: next,
    resume: false,
  });
  const asReported = (kept?: InterruptedRun): ExecutionDecision => {
    if (agent.executionStatus === undefined)
      return settled(observed('error', { detail: 'The agent reports an unknown status.' }));
    if (
      reported === 'waiting_for_confirmation' &&
      status.executionStatus === reported &&
      isNewEpoch &&
      facts.keepsQuestions !== true
    )
      return settled(observed(reported, { detail: reloadedWhileWaiting }));
    // The cause of an error is read once per container, and kept as long as the error lasts.
    const detail =
      isSame && (reported === 'error' || reported === 'waiting_for_confirmation')
        ? executionDetail
        : undefined;
    return settled(observed(reported, { kept, detail }));
  };
  const interrupted = (kept: InterruptedRun): ConversationStatus =>
    observed('paused', { kept, detail: messageOf(kept) });

  if (interruption === undefined) return asReported();
  const { lastResumeTime, resumeAttempts = 0, reason } = interruption;
  if (reported === 'running' && lastResumeTime === undefined) {
    const running = settled(observed('running', { kept: resumed(interruption, now) }));
    // An earlier request to resume has started the run, although its outcome is not stored.
    if (resumeAttempts > 0) return running;
    const isOld =
      interruption.abandonedReason === undefined &&
      isWithin(staleMs, interruptions.activeSinceTime, nowMs);
    if (isOld) return settled(interrupted(interruption));
    // The request to resume may have reached this container before the status had the new epoch.
    return isUnconfirmed && reason !== Interruption.user ? running : asReported();
  }
  if (!isStopped) return asReported(reported === 'running' ? interruption : undefined);
  if (lastResumeTime !== undefined) {
    const isOld = isWithin(staleAfterResumeMs, lastResumeTime, nowMs);
    return isOld ? settled(observed('running', { kept: interruption })) : asReported();
  }
  const abandonedReason = abandonedReasonOf(interruption);
  if (abandonedReason !== undefined) {
    // The stored `executionDetail` may be more precise than the text of `messageOf`.
    const known = interruption.abandonedReason === undefined ? undefined : executionDetail;
    const kept = { ...interruption, abandonedReason };
    return settled(
      observed(abandonedReason === 'Stalled' ? 'stuck' : 'error', {
        kept,
        detail: known ?? messageOf(kept),
      }),
    );
  }
  return {
    status: interrupted(interruption),
    resume: status.budgetExhaustion === undefined && (reason !== Interruption.user || runRequested),
  };
}

/**
 * Returns the status of a run that ended in an error without a cause, because its container ended.
 * The operator has not seen the run begin, because the owner sent the message directly to the
 * agent. `before` is the status before this poll.
 */
export function withUnseenInterruption(
  status: ConversationStatus,
  before: ConversationStatus,
  {
    now,
    interruptions = {},
    runRequested = false,
  }: Omit<ReportFacts, 'agentEpoch' | 'nowMs'> & { readonly now: string },
): ExecutionDecision {
  const reason = interruptionReason(before.agentEpoch, interruptions);
  const interruption = nextInterruption(before.interruption, reason, now);
  return {
    status: {
      ...status,
      executionStatus: 'paused',
      executionDetail: messageOf(interruption),
      interruption,
    },
    resume: before.budgetExhaustion === undefined && (reason !== Interruption.user || runRequested),
  };
}

/**
 * Returns the status of a run whose error the agent explains. The run was over before its container
 * ended, so the operator does not resume the run.
 */
export function withAgentError(
  { interruption: _interruption, ...status }: ConversationStatus,
  why: string,
): ConversationStatus {
  return { ...status, executionStatus: 'error', executionDetail: beginningOf(why, 2048) };
}
