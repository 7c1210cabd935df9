import type { AgentClient, AgentConversation, AgentEndpoint, AgentFailure } from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isoTime, type Clock } from '@conversation-operator/kube/clock';
import { LruMap } from '@conversation-operator/kube/lru-map';
import type { Logger } from '@conversation-operator/kube/logger';
import type { ConversationStatus } from '../../../resources/conversation.ts';
import { isRunRequested, type Sandbox } from '../../../resources/sandbox.ts';
import { durationMs, type SandboxTemplate } from '../../../resources/sandbox-template.ts';
import { retryAfterMs, withAttempt, withRunContinued, withRunRefused, withStall } from './run-resume.ts';
import { withAgentState, withFailureOf, withUnseenLoss } from './decide.ts';
import { sinceMessage } from '../messages/decide.ts';
import { isContainerRunning } from './running-container.ts';
import { Stalls } from './stuck-detection.ts';

export interface RunsOptions {
  readonly client: Pick<KubeClient, 'get'>;
  readonly agent: AgentClient;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A conversation whose agent answers. */
export interface RunScope {
  /** What its status is to become. */
  status: ConversationStatus;
  readonly sandbox: Sandbox;
  readonly template: SandboxTemplate | undefined;
  readonly endpoint: AgentEndpoint;
  readonly id: string;
  /** Writes the status on the very version that was read, or throws. */
  store(): Promise<void>;
  /** A text of the agent's without what its owner may not see. */
  shown(text: string): Promise<string>;
  /** What the agent has to know before it runs again. */
  beforeItGoesOn(): Promise<void>;
}

const maxRemembered = 20_000;
/** Delay before the API server is asked whether a container was exchanged: caches that are not behind show it by then. */
const causelessMs = 5_000;
const doubtMs = 1_000;

/** Keeps what is said of a conversation's run what it is, and lets it go on where something else than its owner has cut it. */
export class Runs {
  readonly #options: RunsOptions;
  readonly #stalls: Stalls;
  /** Errors without a cause: in which of the agent's runs, and since when by the monotonic clock. */
  readonly #causeless = new LruMap<string, { readonly agentEpoch: number; readonly since: number }>(maxRemembered);

  constructor(options: RunsOptions) {
    this.#options = options;
    this.#stalls = new Stalls(options);
  }

  /** Takes what the agent has just said of itself. Returns when to look again, if sooner than usual. */
  async follow(scope: RunScope, state: AgentConversation, signal: AbortSignal): Promise<number | undefined> {
    const before = scope.status;
    const { agent, client, clock } = this.#options;
    const { endpoint, id } = scope;
    const stops = scope.sandbox.status ?? {};
    const runRequested = isRunRequested(scope.sandbox);
    const { agentEpoch = 0 } = stops;
    const stopping = before.interruption?.abandonedReason === 'Stalled' && this.#stalls.isStopping(keyOf(scope));
    const said: AgentConversation = stopping && state.executionStatus === 'running' ? { ...state, executionStatus: 'paused' } : state;
    const seen = sinceMessage(said, before, { agentEpoch, nowMs: clock.now() });
    const decision = withAgentState(before, seen, agentEpoch, clock.now(), stops, runRequested);
    const observed = decision.status;
    let { continueRun } = decision;
    if (observed.executionStatus !== 'error') this.#causeless.delete(keyOf(scope));
    // Half of it is not stored when the next question fails: whether the run was cut follows from where it was seen before.
    if (observed.executionStatus === 'error' && observed.executionDetail === undefined) {
      const failure = await agent.lastError(endpoint, id, { signal });
      if (failure !== undefined) scope.status = withFailureOf(observed, await shownOf(scope, failure));
      else if (before.agentEpoch === observed.agentEpoch) {
        // Its container may have been exchanged, and the sandbox not say so yet: then it is a loss, and goes on.
        if (!this.#hasStood(keyOf(scope), agentEpoch) || !(await isContainerRunning(client, scope.sandbox, signal))) return doubtMs;
        scope.status = { ...observed, executionDetail: 'The run was cut off.' };
      } else ({ status: scope.status, continueRun } = withUnseenLoss(observed, before, isoTime(clock), stops, runRequested));
    } else if (
      seen.executionStatus === 'error' &&
      (observed.executionStatus === 'paused' || observed.interruption?.abandonedReason !== undefined) &&
      (continueRun || before.agentEpoch !== agentEpoch || seen.updatedAt !== before.lastActivityTime)
    ) {
      // Over by itself before it was cut, or begun by a message that went straight to the agent; and nobody had looked.
      const failure = await agent.lastError(endpoint, id, { signal });
      continueRun &&= failure === undefined;
      scope.status = failure === undefined ? observed : withFailureOf(observed, await shownOf(scope, failure));
    } else scope.status = observed;
    await scope.beforeItGoesOn();
    if (continueRun) return this.#continue(scope, signal);
    return this.#stopStalled(scope, signal);
  }

  /** Whether the error has been there, without a cause, for so long that its sandbox would say if its container were another. */
  #hasStood(key: string, agentEpoch: number): boolean {
    const now = this.#options.clock.monotonic();
    const known = this.#causeless.get(key);
    if (known?.agentEpoch === agentEpoch) return now - known.since >= causelessMs;
    this.#causeless.set(key, { agentEpoch, since: now });
    return false;
  }

  /**
   * Counted before it is done, on the version that was read: whoever acts on what is old writes nothing, and so lets nothing go on
   * that has been continued, or given up, since.
   */
  async #continue(scope: RunScope, signal: AbortSignal): Promise<number | undefined> {
    const { agent, clock, logger } = this.#options;
    scope.status = withAttempt(scope.status);
    await scope.store();
    try {
      await agent.run(scope.endpoint, scope.id, { signal });
    } catch (error) {
      if (!(error instanceof AgentError) || signal.aborted) throw error;
      logger.info('the agent did not go on', { conversation: scope.id, code: error.code });
      scope.status = withRunRefused(scope.status, error.code);
      return scope.status.interruption === undefined ? undefined : retryAfterMs(scope.status.interruption);
    }
    scope.status = withRunContinued(scope.status, isoTime(clock));
    return undefined;
  }

  /** Stored before it is done: a run that stands, and nobody knows why, would wait for ever. */
  async #stopStalled(scope: RunScope, signal: AbortSignal): Promise<undefined> {
    const { agent, clock } = this.#options;
    const key = keyOf(scope);
    const silentMs = this.#stalls.look(key, scope.status);
    const allowed = scope.template?.spec.agent.stuckAfter;
    if (allowed === undefined || scope.status.executionStatus !== 'running' || silentMs < durationMs(allowed)) return undefined;
    scope.status = withStall(scope.status, isoTime(clock), allowed);
    await scope.store();
    let taken = false;
    try {
      await agent.interrupt(scope.endpoint, scope.id, { signal });
      taken = true;
    } finally {
      this.#stalls.stopped(key, taken);
    }
    return undefined;
  }
}

const keyOf = ({ sandbox, id }: RunScope): string => `${sandbox.metadata.uid}/${id}`;
const shownOf = (scope: RunScope, { code, detail }: AgentFailure): Promise<string> => scope.shown(`${code}: ${detail}`);
