import type { Logger } from '@conversation-operator/base/logger';
import type { AgentClient, AgentConversation, AgentEndpoint } from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { durationMs } from '../../../resources/sandbox-template.ts';
import type { SaveStatus } from '../scope.ts';
import { runKey, type PolledRun } from './run-observer.ts';
import {
  retryAfterMs,
  withResumeAttempt,
  withResumeFailed,
  withRunResumed,
  withRunStuck,
} from './run-resume.ts';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { LastingValues } from '../../elapsed-times.ts';
import { createHash } from 'node:crypto';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import type { AgentConfigurations } from '../agent-configuration.ts';

/** Code of the agent's error when the host of the model rejects the API key. */
const authenticationError = 'LLMAuthenticationError';

interface KeyRotationOptions {
  readonly agent: AgentClient;
  readonly configurations: AgentConfigurations;
}

/**
 * Gives the current API key to a conversation whose model has rejected the previous key, so that
 * the next run has the current key. The keys that were given are in memory only; a new process
 * gives the same key again, which changes nothing.
 */
export class KeyRotation {
  readonly #options: KeyRotationOptions;
  /** UID of the conversation and SHA-256 of the key, by namespace and name. */
  readonly #given = new Map<string, string>();

  constructor(options: KeyRotationOptions) {
    this.#options = options;
  }

  forget(namespace: string, name: string): void {
    this.#given.delete(`${namespace}/${name}`);
  }

  /** Throws `AgentError` when the agent could not be called; the next poll tries again. */
  async rotate(
    conversation: CachedConversation,
    state: AgentConversation,
    endpoint: AgentEndpoint,
    signal: AbortSignal,
  ): Promise<void> {
    const { agent, configurations } = this.#options;
    const { namespace, name, uid } = conversation.metadata;
    const { executionStatus, executionDetail } = conversation.status ?? {};
    if (executionStatus !== 'error' || executionDetail?.startsWith(authenticationError) !== true)
      return;
    const llm = await configurations.llmWithKey(conversation);
    if (llm === undefined) return;
    // A client may have set another model, which has a key of its own.
    if (state.llm?.model !== llm.model || state.llm.baseUrl !== llm.baseUrl) return;
    const given = `${uid} ${createHash('sha256').update(llm.apiKey).digest('base64')}`;
    if (this.#given.get(`${namespace}/${name}`) === given) return;
    try {
      await agent.useLlm(endpoint, state.id, llm, { signal });
    } catch (error) {
      // An agent that does not support the call never will.
      if (!(
        error instanceof AgentError &&
        (error.code === 'not-found' || error.code === 'refused')
      ))
        throw error;
    }
    this.#given.set(`${namespace}/${name}`, given);
  }
}

/** Maximum runs in memory. */
const maxRemembered = 20_000;
/**
 * The stored state of an agent lags behind: a report that the run is running is old for this time
 * after an interrupt.
 */
const staleMs = 1_500;

/**
 * Returns a text that changes with each event of the agent and each resume; undefined for a run
 * that is not running or not reported.
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
 * while a tool runs, while the model answers, or while the agent hangs; so a limit helps only users
 * who know how long their tools take. The begin of a run is not always an event either, so the time
 * counts from the first poll of this process that shows the run with nothing newer. Another process
 * counts anew.
 */
export class StuckDetection {
  readonly #clock: Clock;
  readonly #lastSigns: LastingValues;
  /** Time of the last interrupt of each run, successful or not. */
  readonly #interruptedAt = recentlyUsed<number>(maxRemembered);

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
    this.#lastSigns = new LastingValues({ clock });
  }

  /** Milliseconds for which the agent has reported nothing new, including this poll. */
  quietMs(key: string, status: ConversationStatus): number {
    const sign = lastSignOf(status);
    if (sign !== undefined) return this.#lastSigns.lastsMs(key, sign);
    this.#lastSigns.forget(key);
    return 0;
  }

  /**
   * Records an interrupt. A run whose agent did not accept the interrupt stays quiet, and is
   * interrupted again.
   */
  recordInterrupt(key: string, isAccepted: boolean): void {
    this.#interruptedAt.set(key, this.#clock.monotonic());
    if (isAccepted) this.#lastSigns.forget(key);
  }

  /** Whether a report that the run is running may be from before the interrupt. */
  isInterrupting(key: string): boolean {
    const interruptedAt = this.#interruptedAt.get(key);
    return interruptedAt !== undefined && this.#clock.monotonic() - interruptedAt < staleMs;
  }
}

export interface RunControlOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly agent: AgentClient;
  readonly stuck: StuckDetection;
}

export interface RunControlContext {
  readonly status: ConversationStatus;
  readonly save: SaveStatus;
  readonly signal: AbortSignal;
}

/**
 * Requests the agent to resume an interrupted run. The attempt is stored before the request, on the
 * version of the conversation that was read: an operator that acts on an outdated version writes
 * nothing, and so resumes no run that was resumed, or abandoned, since.
 */
export async function resumeRun(
  { agent, clock, logger }: RunControlOptions,
  { endpoint, id }: PolledRun,
  { status: before, save, signal }: RunControlContext,
): Promise<{ readonly status: ConversationStatus; readonly againAfterMs?: number | undefined }> {
  const attempted = await save(withResumeAttempt(before));
  let isRequested = false;
  try {
    const state = await agent.conversation(endpoint, id, { signal });
    // A request to run would confirm the actions that wait for an answer by now.
    if (state?.executionStatus !== 'waiting_for_confirmation') {
      isRequested = true;
      await agent.run(endpoint, id, { signal });
    }
  } catch (error) {
    if (!(error instanceof AgentError) || signal.aborted) throw error;
    logger.info('the agent did not resume the run', { conversation: id, code: error.code });
    const status = withResumeFailed(attempted, error, isRequested);
    return { status, againAfterMs: status.interruption && retryAfterMs(status.interruption) };
  }
  return { status: withRunResumed(attempted, isoTime(clock)) };
}

/**
 * Interrupts a run whose agent has reported nothing for longer than the template allows. The status
 * is stored before the interrupt, because a run that is paused without a known cause would wait for
 * ever.
 */
export async function interruptStuckRun(
  { agent, clock, stuck }: RunControlOptions,
  run: PolledRun & { readonly stuckAfter: string | undefined },
  { status, save, signal }: RunControlContext,
): Promise<ConversationStatus> {
  const key = runKey(run);
  const quietMs = stuck.quietMs(key, status);
  const { stuckAfter } = run;
  if (
    stuckAfter === undefined ||
    status.executionStatus !== 'running' ||
    quietMs < durationMs(stuckAfter)
  )
    return status;
  const interrupted = await save(withRunStuck(status, isoTime(clock), stuckAfter));
  let isAccepted = false;
  try {
    await agent.interrupt(run.endpoint, run.id, { signal });
    isAccepted = true;
  } finally {
    stuck.recordInterrupt(key, isAccepted);
  }
  return interrupted;
}
