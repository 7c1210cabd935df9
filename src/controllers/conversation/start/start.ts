import type { Stores } from '../../caches.ts';
import { AgentError } from '../../../agent/errors.ts';
import { isoTime } from '@conversation-operator/base/clock';
import { Shares } from '@conversation-operator/base/shares';
import type { Sandbox } from '../../../resources/sandbox.ts';
import { isUnanswered } from '../../agent-calls/poll-bulkhead.ts';
import type { SaveStatus, Scope } from '../scope.ts';
import { awaitAgent } from './await-agent.ts';
import { chooseSandbox, type ChooseSandboxOptions, type NamedStores } from './choose-sandbox.ts';
import { createConversation, type CreateConversationOptions } from './create-conversation.ts';
import { prepareWorkspace, type PrepareWorkspaceOptions } from './prepare-workspace.ts';
import { Preparation } from './preparation.ts';
import type { PreparationLimits } from './preparation-failures.ts';
import { runStages, type AgentStageContext, type Stage } from './stage.ts';
import { StartFailure } from './start-failure.ts';
import { agentRetryMs, withFailure } from './start-status.ts';
import { StepDeadlines } from './step-deadlines.ts';

type StageOptions = ChooseSandboxOptions & PrepareWorkspaceOptions & CreateConversationOptions;

export interface StartOptions extends Omit<StageOptions, 'stores' | 'deadlines' | 'preparation'> {
  readonly stores: NamedStores & Pick<Stores, 'templates'>;
  /**
   * Limits that differ from the defaults: 10 min for a clone, 10 min for the set-up script, 10 GiB
   * for a repository.
   */
  readonly preparation?: Partial<PreparationLimits> | undefined;
  /** Called once for a sandbox whose agent is unresponsive. */
  readonly onUnresponsive: (sandbox: Sandbox) => void;
}

const defaultLimits: PreparationLimits = {
  cloneTimeoutSeconds: 600,
  setupTimeoutSeconds: 600,
  maxRepositoryMebibytes: 10_240,
};
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
  readonly #deadlines: StepDeadlines;
  readonly #stages: readonly Stage[];
  readonly #agentStages: readonly Stage<AgentStageContext>[];
  /** Starts that call agents, by sandbox. */
  readonly #calls = new Shares({
    total: Infinity,
    perOwner: Infinity,
    perSandbox: maxPerSandbox,
    refuse: (bound) => new Error(bound),
  });

  constructor(options: StartOptions) {
    this.#options = options;
    const limits = { ...defaultLimits, ...options.preparation };
    this.#deadlines = new StepDeadlines({ ...options, limits });
    const stageOptions = {
      ...options,
      deadlines: this.#deadlines,
      preparation: new Preparation({ ...options, ...limits }),
    };
    this.#stages = [chooseSandbox(stageOptions), awaitAgent(stageOptions)];
    this.#agentStages = [...prepareWorkspace(stageOptions), createConversation(stageOptions)];
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
    const waiting = await runStages(this.#stages, scope, { save, signal });
    const { endpoint } = scope;
    if (waiting !== undefined || endpoint === undefined) return waiting?.afterMs;
    const holder = { owner: scope.stored.spec.owner, sandbox: scope.status.sandboxUID };
    if (!this.#calls.hasRoom(holder)) {
      // The time of a step that has not begun does not count.
      if (scope.status.start?.deadline !== undefined) scope.status = this.#deadlines.check(scope);
      return busyMs;
    }
    const release = this.#calls.take(holder);
    try {
      return (await runStages(this.#agentStages, scope, { save, signal, endpoint }))?.afterMs;
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
