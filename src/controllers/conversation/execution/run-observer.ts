import { keepsQuestions } from '../../../agent/kinds.ts';
import type { AgentClient, AgentConversation, AgentEndpoint } from '../../../agent/agent.ts';
import type { NamedSecret } from '../../../agent/redaction.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import { pods } from '@conversation-operator/kube/core';
import { hasAnswerToGive } from '../../../resources/approval.ts';
import type { ConversationStatus, MessageState } from '../../../resources/conversation-status.ts';
import { isRunRequested, type Sandbox } from '../../../resources/sandbox.ts';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { ElapsedTimes, isWithin } from '../../elapsed-times.ts';
import { storedObject } from '../../stored-object.ts';
import { Interruption } from './interruption.ts';
import {
  withAgentError,
  withAgentReport,
  withUnseenInterruption,
  type ExecutionDecision,
} from './decide.ts';

/** Maximum runs whose last interrupt is in memory. */
const maxRemembered = 20_000;
/** Time after an interrupt in which a report of a running run may be from before the interrupt. */
const interruptingMs = 1_500;

/**
 * Returns a text that changes with each event of the agent and each resume; undefined if the run is
 * not running, or the agent has not reported any activity.
 */
const lastSignOf = ({
  executionStatus,
  lastActivityTime,
  agentEpoch,
  interruption,
  messages,
}: ConversationStatus): string | undefined =>
  executionStatus === 'running' && lastActivityTime !== undefined
    ? [
        lastActivityTime,
        agentEpoch,
        interruption?.lastResumeTime,
        messages?.lastDeliveredTime,
      ].join('/')
    : undefined;

/**
 * Measures for how long agents have reported nothing about their runs. An agent reports no event
 * while a tool runs, while the model answers, or while the agent hangs, so only users who know how
 * long their tools take can set a limit. The time counts from this process's first poll that shows
 * the latest event, because the start of a run is not always an event. Another process starts at 0.
 */
export class StuckDetection {
  readonly #clock: Clock;
  readonly #lastSigns: ElapsedTimes;
  /** Time of the last interrupt of each run, successful or not. */
  readonly #interruptedAt = recentlyUsed<number>(maxRemembered);

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
    this.#lastSigns = new ElapsedTimes({ clock });
  }

  /** Milliseconds since a poll of this process first showed `lastSignOf`; 0 if it is undefined. */
  quietMs(key: string, status: ConversationStatus): number {
    const sign = lastSignOf(status);
    if (sign !== undefined) return this.#lastSigns.lastsMs(key, sign);
    this.#lastSigns.forget(key);
    return 0;
  }

  /** Records an interrupt, whether or not the agent has accepted it. */
  recordInterrupt(key: string): void {
    this.#interruptedAt.set(key, this.#clock.monotonic());
  }

  /** Restarts the time of `quietMs`, so that the run is not interrupted again at once. */
  recordAccepted(key: string): void {
    this.#lastSigns.forget(key);
  }

  /** Whether a report of a running run may be from before the interrupt. */
  isInterrupting(key: string): boolean {
    const interruptedAt = this.#interruptedAt.get(key);
    return interruptedAt !== undefined && this.#clock.monotonic() - interruptedAt < interruptingMs;
  }
}

export interface RunObserverOptions {
  readonly client: Pick<KubeClient, 'get'>;
  readonly agent: AgentClient;
  readonly stuck: StuckDetection;
  readonly clock: Clock;
}

/** Run of a started conversation whose agent has answered a poll. */
export interface PolledRun {
  readonly sandbox: Sandbox;
  readonly endpoint: AgentEndpoint;
  readonly id: string;
  readonly state: AgentConversation;
  /** Removes the model's API key and control characters from a text of the agent. */
  readonly shown: (text: string, maxLength?: number) => Promise<string>;
  /** Reads all secrets of the conversation, even those that are too short to be hidden. */
  readonly secrets: () => Promise<readonly NamedSecret[]>;
}

export interface Observation extends ExecutionDecision {
  /** Milliseconds until the next poll, as long as the cause of an error is unknown. */
  readonly againAfterMs?: number;
}

/**
 * Delay before the operator asks the API server whether a container was replaced. The cache shows a
 * replacement earlier, unless the cache lags.
 */
const unexplainedMs = 5_000;
const againAfterMs = 1_000;

/** Time after a message in which a report of a stopped run may be from before the message. */
const staleMs = 1_500;

export const isRecent = ({ lastDeliveredTime }: MessageState, nowMs: number): boolean =>
  isWithin(staleMs, lastDeliveredTime, nowMs);

/** The agent's report, with the status `running` if it may be older than a delivered message. */
export function correctedByMessage(
  state: AgentConversation,
  { messages, executionStatus, agentEpoch: seenIn }: ConversationStatus,
  { agentEpoch, nowMs }: { readonly agentEpoch: number; readonly nowMs: number },
): AgentConversation {
  // A message to the previous container starts no run in a new container.
  const isOutdated =
    seenIn === agentEpoch &&
    messages !== undefined &&
    executionStatus === 'running' &&
    messages.runPending !== true &&
    isRecent(messages, nowMs);
  if (!isOutdated || state.executionStatus === 'waiting_for_confirmation') return state;
  return { ...state, executionStatus: 'running' };
}

export const runKey = ({ sandbox, id }: Pick<PolledRun, 'sandbox' | 'id'>): string =>
  `${sandbox.metadata.uid}/${id}`;

/**
 * Whether the container that a sandbox names is running, as the API server reports it. A cached
 * sandbox may name a replaced container while a watch lags.
 */
async function isContainerRunning(
  client: Pick<KubeClient, 'get'>,
  { metadata: { namespace, name }, status }: Sandbox,
  signal: AbortSignal,
): Promise<boolean> {
  const pod = await storedObject({ client, signal }, pods, { metadata: { namespace, name } });
  const containers = pod?.status?.containerStatuses ?? [];
  return containers.some(
    ({ containerID, state }) => containerID === status?.containerID && state?.running !== undefined,
  );
}

/** Derives the status of a run from the agent's report, and asks for the cause of an error. */
export class RunObserver {
  readonly #options: RunObserverOptions;
  /** Time for which a run has had an error without a cause in the same `agentEpoch`. */
  readonly #unexplained: ElapsedTimes;

  constructor(options: RunObserverOptions) {
    this.#options = options;
    this.#unexplained = new ElapsedTimes(options);
  }

  /**
   * Throws `AgentError` when the agent does not answer a question for the cause of an error. The
   * caller then discards the report, because the next step depends on the cause.
   */
  async observe(
    run: PolledRun,
    before: ConversationStatus,
    signal: AbortSignal,
  ): Promise<Observation> {
    const { client, clock, stuck } = this.#options;
    const { sandbox, state } = run;
    const key = runKey(run);
    const interruptions: NonNullable<Sandbox['status']> = sandbox.status ?? {};
    // A person who has answered the agent's question wants the run to continue.
    const runRequested = isRunRequested(sandbox) || hasAnswerToGive({ spec: {}, status: before });
    const { agentEpoch = 0 } = interruptions;
    const isInterrupting =
      before.interruption?.abandonedReason === 'Stalled' && stuck.isInterrupting(key);
    const reported: AgentConversation =
      isInterrupting && state.executionStatus === 'running'
        ? { ...state, executionStatus: 'paused' }
        : state;
    const corrected = correctedByMessage(reported, before, { agentEpoch, nowMs: clock.now() });
    const decision = withAgentReport(before, corrected, {
      agentEpoch,
      nowMs: clock.now(),
      interruptions,
      runRequested,
      keepsQuestions: keepsQuestions(interruptions, state),
    });
    const { status, resume } = decision;
    if (status.executionStatus !== 'error') this.#unexplained.forget(key);
    if (status.executionStatus === 'error' && status.executionDetail === undefined) {
      const cause = await this.#causeOf(run, signal);
      if (cause !== undefined) return { status: withAgentError(status, cause), resume };
      if (before.agentEpoch !== status.agentEpoch)
        return withUnseenInterruption(status, before, {
          now: isoTime(clock),
          interruptions,
          runRequested,
        });
      // The status of the sandbox may still name the previous container. If a new container has
      // replaced that one, the operator later resumes the run.
      const hasLasted = this.#unexplained.lastsMs(key, agentEpoch) >= unexplainedMs;
      if (!hasLasted || !(await isContainerRunning(client, sandbox, signal)))
        return { status: before, resume: false, againAfterMs };
      return { status: { ...status, executionDetail: 'The run ended without a cause.' }, resume };
    }
    if (
      corrected.executionStatus === 'error' &&
      // The error of such a run is that its model was refused.
      status.interruption?.reason !== Interruption.budget &&
      (status.executionStatus === 'paused' || status.interruption?.abandonedReason !== undefined) &&
      (resume ||
        before.agentEpoch !== agentEpoch ||
        corrected.updatedAt !== before.lastActivityTime)
    ) {
      // The run may have ended before its interruption, or the owner may have sent a message
      // directly to the agent before this poll.
      const cause = await this.#causeOf(run, signal);
      if (cause !== undefined) return { status: withAgentError(status, cause), resume: false };
    }
    return decision;
  }

  async #causeOf(
    { endpoint, id, shown }: PolledRun,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const failure = await this.#options.agent.lastError(endpoint, id, { signal });
    return failure === undefined ? undefined : shown(`${failure.code}: ${failure.detail}`);
  }
}
