import { AgentError } from '../../../agent/errors.ts';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import { Shares } from '@conversation-operator/base/shares';
import type { Sandbox } from '../../../resources/sandbox.ts';
import type { UnresponsiveAgents } from '../../agent-calls/unresponsive-agents.ts';
import { isUnanswered } from '../../agent-calls/poll-bulkhead.ts';
import type { SaveStatus, Scope } from '../scope.ts';
import { runStages, type AgentStageContext, type Stage, StartFailure } from './stage.ts';
import { agentRetryMs, withFailure } from './start-status.ts';
import type { StepDeadlines } from './step-deadlines.ts';

export interface StartOptions {
  /** The stages until an agent answers, in order. */
  readonly stages: readonly Stage[];
  /** The stages that call the agent, in order. */
  readonly agentStages: readonly Stage<AgentStageContext>[];
  readonly deadlines: Pick<StepDeadlines, 'check'>;
  readonly unresponsiveAgents: Pick<UnresponsiveAgents, 'recordFailure'>;
  /** Called once for a sandbox whose agent is unresponsive. */
  readonly onUnresponsive: (sandbox: Sandbox) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Maximum starts that call the agent of one sandbox at once: each call holds a worker. */
const maxPerSandbox = 4;
/** Delay before a start tries again to call an agent that enough other starts call. */
const busyMs = 1_000;

/**
 * Takes a conversation from WORKING to READY, or to ERROR. A stage that is done changes nothing, so
 * each reconcile runs all stages.
 */
export class Start {
  readonly #options: StartOptions;
  /** Starts that call agents, by sandbox. */
  readonly #calls = new Shares({
    total: Infinity,
    perOwner: Infinity,
    perSandbox: maxPerSandbox,
    refuse: (bound) => new Error(bound),
  });

  constructor(options: StartOptions) {
    this.#options = options;
  }

  /**
   * Returns the milliseconds until the next reconcile; undefined when a change of the sandbox
   * causes the next reconcile.
   */
  async advance(scope: Scope, save: SaveStatus, signal: AbortSignal): Promise<number | undefined> {
    const { clock, logger } = this.#options;
    const beganAt = clock.monotonic();
    try {
      return await this.#advance(scope, save, signal);
    } catch (error) {
      if (error instanceof StartFailure) {
        scope.status = withFailure(scope.status, error, isoTime(clock));
        return undefined;
      }
      if (!(error instanceof AgentError) || signal.aborted) throw error;
      logger.debug('agent call failed', {
        conversation: scope.stored.metadata.name,
        code: error.code,
        error,
      });
      this.#recordFailure(scope, error);
      return agentRetryMs(clock.monotonic() - beganAt);
    }
  }

  async #advance(scope: Scope, save: SaveStatus, signal: AbortSignal): Promise<number | undefined> {
    const { stages, agentStages, deadlines } = this.#options;
    const waiting = await runStages(stages, scope, { save, signal });
    const { endpoint } = scope;
    if (waiting !== undefined || endpoint === undefined) return waiting?.afterMs;
    const holder = { owner: scope.stored.spec.owner, sandbox: scope.status.sandboxUID };
    if (!this.#calls.hasRoom(holder)) {
      // The time of a step that has not begun does not count.
      if (scope.status.start?.deadline !== undefined) scope.status = deadlines.check(scope);
      return busyMs;
    }
    const release = this.#calls.take(holder);
    try {
      return (await runStages(agentStages, scope, { save, signal, endpoint }))?.afterMs;
    } finally {
      release();
    }
  }

  /**
   * Records a failed call. The sandbox controller takes over a sandbox whose agent is unresponsive,
   * so that no start holds a worker.
   */
  #recordFailure({ sandbox }: Scope, error: AgentError): void {
    const { unresponsiveAgents, onUnresponsive } = this.#options;
    if (
      sandbox !== undefined &&
      isUnanswered(error) &&
      unresponsiveAgents.recordFailure(sandbox.metadata.uid)
    )
      onUnresponsive(sandbox);
  }
}
