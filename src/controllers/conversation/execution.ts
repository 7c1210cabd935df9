import type { AgentConversation } from '../../agent/agent.ts';
import type { ConversationStatus } from '../../resources/conversation.ts';
import { SandboxReason, type Sandbox, type SandboxView } from '../../resources/sandbox.ts';

export const Interruption = { user: SandboxReason.user, loss: 'Loss' } as const;

/** What is stored of the stops of a sandbox's agent. */
export type Stops = Pick<NonNullable<Sandbox['status']>, 'lastStop' | 'lastOwnerStop' | 'interrupted' | 'activeSince'>;

const never = -1;

/**
 * Why a run was cut that was last seen in `agentRun`: by its owner, if they have paused the sandbox since, whatever else came
 * before or after; by another stop since; or by the loss of its container. Runs are compared by their order and not by what they
 * are called, because whoever looked may have known only an earlier one than the one that answered.
 */
const whyCut = (agentRun: number | undefined, { lastStop, lastOwnerStop = never }: Stops, paused?: SandboxView): string => {
  const seenIn = agentRun ?? 0;
  if (lastOwnerStop >= seenIn) return Interruption.user;
  if (paused !== undefined) return paused.reason;
  return lastStop !== undefined && lastStop.agentRuns >= seenIn ? lastStop.reason : Interruption.loss;
};

/** In which of its agent's runs the last stop cut a run of this conversation, if nobody has looked at it since. */
const stoppedSince = ({ agentRun = 0 }: ConversationStatus, id: string, { lastStop, interrupted }: Stops): number | undefined =>
  lastStop !== undefined && lastStop.agentRuns >= agentRun && interrupted?.includes(id) === true ? lastStop.agentRuns : undefined;

/** One that has been continued is over; a run that is cut after that has been interrupted anew. */
const pendingOf = ({ interruption }: ConversationStatus) => (interruption?.continuedAt === undefined ? interruption : undefined);

/**
 * The status of a conversation whose sandbox can't be asked: a run that was under way is now interrupted, and remembered with the
 * reason, because that decides whether it goes on by itself later.
 */
export function withSandboxAway(
  status: ConversationStatus,
  id: string,
  sandbox: Sandbox | undefined,
  view: SandboxView,
  now: string,
): ConversationStatus {
  if (view.phase === 'ERROR' || view.phase === 'MISSING') return status;
  const stops = sandbox?.status ?? {};
  const stoppedIn = stoppedSince(status, id, stops);
  if ((status.executionStatus === 'running' || stoppedIn !== undefined) && pendingOf(status) === undefined) {
    const seenIn = stoppedIn ?? status.agentRun;
    const reason = whyCut(seenIn, stops, view.phase === 'PAUSED' ? view : undefined);
    return {
      ...status,
      executionStatus: 'paused',
      ...(seenIn === undefined ? {} : { agentRun: seenIn }),
      interruption: { reason, time: now },
    };
  }
  const pausedByOwner = view.phase === 'PAUSED' && view.reason === SandboxReason.user;
  const interruption = overruled(status, pausedByOwner ? { lastOwnerStop: Infinity } : stops);
  return interruption === status.interruption || interruption === undefined ? status : { ...status, interruption };
}

/** The interruption of a run as it is now: its owner's word counts more than the loss or the quota that came before. */
const overruled = ({ interruption, agentRun = 0 }: ConversationStatus, { lastOwnerStop = never }: Stops) =>
  interruption === undefined || interruption.reason === Interruption.user || lastOwnerStop < agentRun
    ? interruption
    : { ...interruption, reason: Interruption.user };

export interface ExecutionDecision {
  readonly status: ConversationStatus;
  /** The agent stands where something else than its owner stopped it: let it go on. */
  readonly continueRun: boolean;
}

const metricsOf = (agent: AgentConversation) =>
  agent.metrics === undefined
    ? {}
    : {
        metrics: {
          accumulatedCost: agent.metrics.accumulatedCost.toFixed(6),
          promptTokens: agent.metrics.promptTokens,
          completionTokens: agent.metrics.completionTokens,
        },
      };

/**
 * The agent's stored state lags behind: for so long after a run was started, what it says of standing still is old, and for so long
 * after it has come back what it says of a run that was cut.
 */
const staleMs = 1_500;
/** Clocks differ, also by minutes. What an agent says of a later future is not stored. */
const clocksDifferMs = 24 * 3_600_000;

/** What follows from the agent's own word, given in `agentRun` or later. `runRequested`: its owner wants also what they have cut to go on. */
export function withAgentState(
  status: ConversationStatus,
  agent: AgentConversation,
  agentRun: number,
  nowMs: number,
  stops: Stops = {},
  runRequested = false,
): ExecutionDecision {
  const { interruption: _before, executionDetail, ...rest } = status;
  const stands = agent.executionStatus === 'paused' || agent.executionStatus === 'error';
  const stoppedIn = stoppedSince(status, agent.id, stops);
  // Killed while it ran, and nobody had seen that coming; or stopped, and nobody had looked until it came back.
  const cut = status.executionStatus === 'running' || stoppedIn !== undefined;
  const unseen = cut && pendingOf(status) === undefined && status.agentRun !== agentRun && stands;
  const interruption = unseen
    ? { reason: whyCut(stoppedIn ?? status.agentRun, stops), time: new Date(nowMs).toISOString() }
    : overruled(status, stops);
  const reported = agent.executionStatus ?? 'error';
  const known = agent.executionStatus === undefined ? 'The agent reports a status that is not known here.' : undefined;
  // The reason of an error is asked for once in each container, and kept as long as the error stands.
  const same = reported === 'error' && status.executionStatus === 'error' && status.agentRun === agentRun;
  const detail = known ?? (same ? executionDetail : undefined);
  const observed = (executionStatus: ConversationStatus['executionStatus'], kept = interruption): ConversationStatus => ({
    ...rest,
    executionStatus,
    agentRun,
    ...(kept === undefined ? {} : { interruption: kept }),
    ...(detail === undefined ? {} : { executionDetail: detail }),
    ...(agent.title === undefined ? {} : { title: agent.title }),
    ...(agent.updatedAt === undefined || Date.parse(agent.updatedAt) > nowMs + clocksDifferMs ? {} : { lastActivityTime: agent.updatedAt }),
    ...metricsOf(agent),
  });
  const cameBack = Date.parse(stops.activeSince ?? '');
  if (reported === 'running' && interruption !== undefined && interruption.continuedAt === undefined && nowMs - cameBack < staleMs) {
    return { status: observed('paused'), continueRun: false };
  }
  if (interruption === undefined || !stands) return { status: withoutInterruption(observed(reported)), continueRun: false };
  if (interruption.continuedAt !== undefined) {
    const stale = nowMs - Date.parse(interruption.continuedAt) < staleMs;
    return { status: stale ? observed('running') : withoutInterruption(observed(reported)), continueRun: false };
  }
  return { status: observed('paused'), continueRun: interruption.reason !== Interruption.user || runRequested };
}

/**
 * A run that ended in an error without a cause was killed with its container. Nobody had seen it begin: the message came
 * straight from its owner. `before` is what was known until now.
 */
export function withUnseenLoss(
  status: ConversationStatus,
  before: ConversationStatus,
  now: string,
  stops: Stops,
  runRequested = false,
): ExecutionDecision {
  const reason = whyCut(before.agentRun, stops);
  const interrupted: ConversationStatus = { ...status, executionStatus: 'paused', interruption: { reason, time: now } };
  return { status: interrupted, continueRun: reason !== Interruption.user || runRequested };
}

/** After the agent has taken the order to go on. */
export const withRunContinued = (status: ConversationStatus, now: string): ConversationStatus => ({
  ...status,
  executionStatus: 'running',
  ...(status.interruption === undefined ? {} : { interruption: { ...status.interruption, continuedAt: now } }),
});

function withoutInterruption({ interruption, ...status }: ConversationStatus): ConversationStatus {
  return status;
}
