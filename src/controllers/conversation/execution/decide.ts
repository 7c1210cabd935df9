import type { AgentConversation } from '../../../agent/agent.ts';
import type { ConversationStatus } from '../../../resources/conversation.ts';
import { SandboxReason, type Sandbox, type SandboxView } from '../../../resources/sandbox.ts';
import { Interruption, continued, givenUpFor, interruptedAnew, wordsOf, type InterruptedRun } from './run-resume.ts';

/** What is stored of the stops of a sandbox's agent. */
export type Stops = Pick<
  NonNullable<Sandbox['status']>,
  'lastInterruption' | 'lastUserPauseEpoch' | 'lastDisruptionEpoch' | 'interruptedConversationIDs' | 'activeSinceTime'
>;

const never = -1;

/**
 * Why a run was cut that was last seen in `agentEpoch`: by its owner, if they have paused the sandbox since, whatever else came
 * before or after; by another stop since; or by the loss of its pod, or of its container. Runs are compared by their order and not by what they
 * are called, because whoever looked may have known only an earlier one than the one that answered.
 */
const whyCut = (
  agentEpoch: number | undefined,
  { lastInterruption, lastUserPauseEpoch = never, lastDisruptionEpoch = never }: Stops,
  paused?: SandboxView,
): string => {
  const seenIn = agentEpoch ?? 0;
  if (lastUserPauseEpoch >= seenIn) return Interruption.user;
  if (paused !== undefined) return paused.reason;
  if (lastInterruption !== undefined && lastInterruption.agentEpoch >= seenIn) return lastInterruption.reason;
  return lastDisruptionEpoch >= seenIn ? Interruption.disruption : Interruption.loss;
};

/** In which of its agent's runs the last stop cut a run of this conversation, if nobody has looked at it since. */
const stoppedSince = (
  { agentEpoch = 0 }: ConversationStatus,
  id: string,
  { lastInterruption, interruptedConversationIDs: interrupted }: Stops,
): number | undefined =>
  lastInterruption !== undefined && lastInterruption.agentEpoch >= agentEpoch && interrupted?.includes(id) === true
    ? lastInterruption.agentEpoch
    : undefined;

/** One that has been continued is over; a run that is cut after that has been interrupted anew. */
const pendingOf = ({ interruption }: ConversationStatus) => (interruption?.lastResumeTime === undefined ? interruption : undefined);

/**
 * Whether an agent was told to go on, whose answer nobody has seen, and another container answers now: the run may have gone on in
 * between, and its container was lost once more. Orders that were refused have not got it going.
 */
function isLostUnconfirmed(
  { agentEpoch: toldIn = 0 }: ConversationStatus,
  interruption: InterruptedRun | undefined,
  agentEpoch: number,
): boolean {
  if (interruption === undefined || interruption.abandonedReason !== undefined || interruption.reason === Interruption.user) return false;
  const { resumeAttempts: attempts = 0, resumeRejections: refusals = 0, lastResumeTime } = interruption;
  return lastResumeTime === undefined && attempts > refusals && agentEpoch > toldIn;
}

const unheard = 'Its agent does not answer, so it is not known whether its run goes on. That is told as soon as it answers.';

/** Whether its run goes on is not known any more: what its agent says of it can't be understood, `why` says it. */
export function withRunUnknown(status: ConversationStatus, sandbox: Sandbox, why: string, now: string): ConversationStatus {
  if (status.executionStatus !== 'running') return status;
  const interruption = interruptedAnew(status.interruption, whyCut(status.agentEpoch, sandbox.status ?? {}), now);
  const executionDetail = `What its agent says can not be understood, so it is not known whether its run goes on: ${why}`;
  return { ...status, executionStatus: 'paused', executionDetail: executionDetail.slice(0, 2048), interruption };
}

/** What can't go on without its sandbox. */
const underWay: ReadonlySet<unknown> = new Set(['running', 'waiting_for_confirmation', 'paused']);

/** The sandbox does not come back: what was under way is over for good. */
function withSandboxGone(status: ConversationStatus): ConversationStatus {
  if (!underWay.has(status.executionStatus)) return status;
  const { interruption: _cut, ...rest } = status;
  return { ...rest, executionStatus: 'error', executionDetail: 'Its sandbox is gone, and its run with it.' };
}

/** The sandbox has failed. What was interrupted stays remembered, and goes on when a person resumes the sandbox. */
function withSandboxFailed(status: ConversationStatus, { message }: SandboxView): ConversationStatus {
  if (!underWay.has(status.executionStatus)) return status;
  return { ...status, executionStatus: 'error', executionDetail: `Its sandbox has failed, and its run stands: ${message}`.slice(0, 2048) };
}

/** Whether a run is in error because of its sandbox alone: an error of its own, or a run that was given up, is not pending. */
const isErrorOfSandbox = (status: ConversationStatus): boolean => {
  const pending = pendingOf(status);
  return status.executionStatus === 'error' && pending !== undefined && givenUpFor(pending) === undefined;
};

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
  if (view.phase === 'MISSING') return withSandboxGone(status);
  const away = withSandboxStopped(status, id, sandbox, view, now);
  if (view.phase === 'ERROR') return withSandboxFailed(away, view);
  if (away.interruption === undefined || !isErrorOfSandbox(away)) return away;
  return { ...away, executionStatus: 'paused', executionDetail: wordsOf(away.interruption) };
}

function withSandboxStopped(
  status: ConversationStatus,
  id: string,
  sandbox: Sandbox | undefined,
  view: SandboxView,
  now: string,
): ConversationStatus {
  const stops = sandbox?.status ?? {};
  const stoppedIn = stoppedSince(status, id, stops);
  if ((status.executionStatus === 'running' || stoppedIn !== undefined) && pendingOf(status) === undefined) {
    const seenIn = stoppedIn ?? status.agentEpoch;
    const reason = whyCut(seenIn, stops, view.phase === 'PAUSED' ? view : undefined);
    const interruption = interruptedAnew(status.interruption, reason, now);
    return {
      ...status,
      executionStatus: 'paused',
      executionDetail: view.reason === SandboxReason.agentSilent ? unheard : wordsOf(interruption),
      ...(seenIn === undefined ? {} : { agentEpoch: seenIn }),
      interruption,
    };
  }
  const pausedByOwner = view.phase === 'PAUSED' && view.reason === SandboxReason.user;
  const interruption = overruled(status, pausedByOwner ? { lastUserPauseEpoch: Infinity } : stops);
  if (interruption === status.interruption || interruption === undefined) return status;
  return { ...status, ...(status.executionStatus === 'paused' ? { executionDetail: wordsOf(interruption) } : {}), interruption };
}

/** The interruption of a run as it is now: its owner's word counts more than the loss or the quota that came before. */
const overruled = (
  { interruption, agentEpoch = 0 }: ConversationStatus,
  { lastUserPauseEpoch = never }: Stops,
): InterruptedRun | undefined => {
  if (interruption === undefined || interruption.reason === Interruption.user || lastUserPauseEpoch < agentEpoch) return interruption;
  const { time, lastResumeTime } = interruption;
  return { reason: Interruption.user, time, ...(lastResumeTime === undefined ? {} : { lastResumeTime }) };
};

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

/** Clocks differ, also by minutes. What an agent says of a later future is not stored. */
const clocksDifferMs = 24 * 3_600_000;

/** What an agent says besides its status. */
export const newsOf = (agent: AgentConversation, nowMs: number) => ({
  ...(agent.title === undefined ? {} : { title: agent.title }),
  ...(agent.updatedAt === undefined || Date.parse(agent.updatedAt) > nowMs + clocksDifferMs ? {} : { lastActivityTime: agent.updatedAt }),
  ...metricsOf(agent),
});

/**
 * The agent's stored state lags behind: for so long after it has come back, what it says of a run that was cut is old; and for so
 * long after a run was continued, what it says of standing still. Then it loads the conversation first: 1.2 s were seen.
 */
const staleMs = 1_500;
const staleAfterContinuationMs = 5_000;

/** Whether a time lies at most so long back. A time in the future was written by another clock and says nothing about age. */
const isWithin = (boundMs: number, timestamp: string | undefined, nowMs: number): boolean => {
  const ageMs = nowMs - Date.parse(timestamp ?? '');
  return ageMs >= 0 && ageMs < boundMs;
};

/** Accepting, or rejecting, after the agent has loaded the conversation anew: seen with openhands-agent-server 1.58. */
const reloadedWhileWaiting =
  'Its agent was restarted while an action waited for confirmation. However that is answered, the agent forgets that the model had asked for it, and some models refuse to go on.';

/** What follows from the agent's own word, given in `agentEpoch` or later. `runRequested`: its owner wants also what they have cut to go on. */
export function withAgentState(
  status: ConversationStatus,
  agent: AgentConversation,
  agentEpoch: number,
  nowMs: number,
  stops: Stops = {},
  runRequested = false,
): ExecutionDecision {
  const { interruption: _before, executionDetail, ...rest } = status;
  const now = new Date(nowMs).toISOString();
  const reported = agent.executionStatus ?? 'error';
  const stoppedIn = stoppedSince(status, agent.id, stops);
  const pending = pendingOf(status);
  // Killed while it ran, and nobody had seen that coming; or stopped, and nobody had looked until it came back.
  const cut = status.executionStatus === 'running' || stoppedIn !== undefined;
  const another = status.agentEpoch !== agentEpoch;
  // One that was cut before it had begun is idle; so is one whose action was rejected for a pause.
  const stands =
    agent.executionStatus === 'paused' ||
    agent.executionStatus === 'error' ||
    (agent.executionStatus === 'idle' && (pending !== undefined || status.interruption?.lastResumeTime !== undefined || (cut && another)));
  const unseen = cut && pending === undefined && another && stands;
  const lostUnconfirmed = isLostUnconfirmed(status, pending, agentEpoch);
  const interruption =
    unseen || lostUnconfirmed
      ? interruptedAnew(status.interruption, whyCut(stoppedIn ?? status.agentEpoch, stops), now)
      : overruled(status, stops);
  const same = reported === status.executionStatus && (status.agentEpoch === agentEpoch || executionDetail === reloadedWhileWaiting);
  const observed = (
    executionStatus: ConversationStatus['executionStatus'],
    { kept, detail }: { kept?: InterruptedRun | undefined; detail?: string | undefined } = {},
  ): ConversationStatus => ({
    ...rest,
    executionStatus,
    agentEpoch,
    ...(kept === undefined ? {} : { interruption: kept }),
    ...(detail === undefined ? {} : { executionDetail: detail }),
    ...newsOf(agent, nowMs),
  });
  const asReported = (kept?: InterruptedRun): ExecutionDecision => {
    if (agent.executionStatus === undefined)
      return { status: observed('error', { detail: 'The agent reports a status that is not known here.' }), continueRun: false };
    if (reported === 'waiting_for_confirmation' && status.executionStatus === reported && another)
      return { status: observed(reported, { detail: reloadedWhileWaiting }), continueRun: false };
    // The reason of an error is asked for once in each container, and kept as long as the error stands.
    const detail = same && (reported === 'error' || reported === 'waiting_for_confirmation') ? executionDetail : undefined;
    return { status: observed(reported, { kept, detail }), continueRun: false };
  };
  const standing = (kept: InterruptedRun, executionStatus: ConversationStatus['executionStatus'] = 'paused') =>
    observed(executionStatus, { kept, detail: wordsOf(kept) });

  if (interruption === undefined) return asReported();
  const { lastResumeTime, resumeAttempts: attempts = 0, reason } = interruption;
  if (reported === 'running' && lastResumeTime === undefined) {
    // Told to go on by somebody who did not live to say so.
    const goesOn = (): ExecutionDecision => ({ status: observed('running', { kept: continued(interruption, now) }), continueRun: false });
    if (attempts > 0) return goesOn();
    const old = interruption.abandonedReason === undefined && isWithin(staleMs, stops.activeSinceTime, nowMs);
    if (old) return { status: standing(interruption), continueRun: false };
    // The order may have reached this very container, before it was known to be another.
    return lostUnconfirmed && reason !== Interruption.user ? goesOn() : asReported();
  }
  if (!stands) return asReported(reported === 'running' ? interruption : undefined);
  if (lastResumeTime !== undefined) {
    const stale = isWithin(staleAfterContinuationMs, lastResumeTime, nowMs);
    return stale ? { status: observed('running', { kept: interruption }), continueRun: false } : asReported();
  }
  const abandonedReason = givenUpFor(interruption);
  if (abandonedReason !== undefined) {
    // Said again where its reason in full is known.
    const known = interruption.abandonedReason === undefined ? undefined : executionDetail;
    const kept = { ...interruption, abandonedReason };
    const word = abandonedReason === 'Stalled' ? 'stuck' : 'error';
    return { status: observed(word, { kept, detail: known ?? wordsOf(kept) }), continueRun: false };
  }
  return { status: standing(interruption), continueRun: reason !== Interruption.user || runRequested };
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
  const reason = whyCut(before.agentEpoch, stops);
  const interruption = interruptedAnew(before.interruption, reason, now);
  const interrupted: ConversationStatus = { ...status, executionStatus: 'paused', executionDetail: wordsOf(interruption), interruption };
  return { status: interrupted, continueRun: reason !== Interruption.user || runRequested };
}

/** The agent itself says why the run ended: it was over before its container was, and does not go on. */
export function withFailureOf({ interruption: _cut, ...status }: ConversationStatus, why: string): ConversationStatus {
  return { ...status, executionStatus: 'error', executionDetail: why.slice(0, 2048) };
}
