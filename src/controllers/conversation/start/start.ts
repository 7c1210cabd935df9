import { AgentError } from '../../../agent/errors.ts';
import { isoTime } from '@conversation-operator/base/clock';
import { Shares } from '@conversation-operator/base/shares';
import type { Sandbox } from '../../../resources/sandbox.ts';
import { isUnanswered } from '../../agent-calls/poll-bulkhead.ts';
import type { OwnerSettingsReader } from '../owner-settings.ts';
import type { RecentAnswers } from '../recent-answers.ts';
import type { Scope } from '../scope.ts';
import { awaitAgent } from './await-agent.ts';
import { chooseSandbox, type ChooseSandboxOptions } from './choose-sandbox.ts';
import { createConversation, type CreateConversationOptions } from './create-conversation.ts';
import { prepareWorkspace, type PrepareWorkspaceOptions } from './prepare-workspace.ts';
import type { SandboxKeys } from '../../../agent/keys.ts';
import {
  StartErrorCode,
  StartFailure,
  type AgentStage,
  type Stage,
  type StageResult,
  type StartScope,
} from './stage.ts';
import { agentRetryMs, withDelay, withFailure } from './start-status.ts';

export interface StartOptions
  extends ChooseSandboxOptions, PrepareWorkspaceOptions, CreateConversationOptions {
  readonly keys: SandboxKeys;
  readonly stores: ChooseSandboxOptions['stores'] & CreateConversationOptions['stores'];
  readonly answers: RecentAnswers;
  readonly ownerSettings: OwnerSettingsReader;
  /** Called once for a sandbox whose agent has not answered any call for a minute. */
  readonly onUnresponsive: (sandbox: Sandbox) => void;
}

/** Maximum starts that call the agent of one sandbox at once: each call occupies a worker. */
const maxPerSandbox = 4;
/** Delay before the next attempt of a start beyond that maximum. */
const busyMs = 1_000;

/**
 * Takes a conversation from WORKING to READY, or to ERROR. The gateway has stored the conversation
 * (`src/gateway/conversations/start.ts`), and each reconcile (`controllers.ts`, `reconcile.ts`)
 * runs all stages in this order. The event for which a stage waits causes the next reconcile.
 *
 * 1. `choose-sandbox.ts` creates or joins the sandbox: WAITING_FOR_SANDBOX.
 * 2. `await-agent.ts` waits until the agent answers, within the time of `step-deadlines.ts`.
 * 3. `prepare-workspace.ts` clones the repository (PREPARING_REPOSITORY; `clone.ts`,
 *    `git/git-access.ts`), and runs its set-up script (SETTING_UP_SKILLS). `preparation.ts` runs
 *    both in the sandbox by the commands of `step-command.ts`; `preparation-failures.ts` explains
 *    failures.
 * 4. `create-conversation.ts` creates the conversation at the agent, with the settings of
 *    `agent-configuration.ts` and `owner-settings.ts`: READY.
 *
 * `stage.ts` defines stages, `start-status.ts` changes the status, `status-writer.ts` writes it,
 * and `recent-answers.ts` keeps the responses to these writes.
 */
export class Start {
  readonly #options: StartOptions;
  readonly #stages: readonly Stage[];
  readonly #agentStages: readonly AgentStage[];
  readonly #calls = new Shares({
    total: Infinity,
    perOwner: Infinity,
    perSandbox: maxPerSandbox,
    refuse: (bound) => new Error(bound),
  });

  constructor(options: StartOptions) {
    this.#options = options;
    this.#stages = [chooseSandbox(options), awaitAgent(options)];
    this.#agentStages = [...prepareWorkspace(options), createConversation(options)];
  }

  /** Returns the milliseconds until the next reconcile; undefined: a sandbox change causes it. */
  async advance(scope: Scope): Promise<number | undefined> {
    const { clock, logger } = this.#options;
    const beganAt = clock.monotonic();
    try {
      return await this.#advance(scope);
    } catch (error) {
      if (error instanceof StartFailure) {
        scope.status = withFailure(scope.status, error, isoTime(clock));
        return undefined;
      }
      if (!(error instanceof AgentError) || scope.signal.aborted) throw error;
      logger.debug('agent call failed', {
        conversation: scope.stored.metadata.name,
        code: error.code,
        error,
      });
      this.#recordFailure(scope, error);
      // No state of the sandbox explains an agent that answers, but not as the protocol says.
      if (error.code === 'malformed')
        scope.status = withDelay(scope.status, {
          code: StartErrorCode.agentAnswerInvalid,
          message: `The agent is asked again, because its answer can not be used: ${error.message}`,
        });
      return agentRetryMs(clock.monotonic() - beganAt);
    }
  }

  async #advance(scope: Scope): Promise<number | undefined> {
    const { deadlines } = this.#options;
    const waiting = await runStages(this.#stages, scope);
    const { endpoint } = scope;
    if (waiting !== undefined || endpoint === undefined) return waiting?.afterMs;
    const holder = { owner: scope.stored.spec.owner, sandbox: scope.status.sandboxUID };
    if (!this.#calls.hasRoom(holder)) {
      // A step without a deadline has not begun, so its time does not count yet.
      if (scope.status.start?.deadline !== undefined) scope.status = deadlines.check(scope);
      return busyMs;
    }
    const release = this.#calls.take(holder);
    try {
      const calling = this.#agentStages.map((stage) => (each: StartScope) => stage(each, endpoint));
      return (await runStages(calling, scope))?.afterMs;
    } finally {
      release();
    }
  }

  /**
   * Records a failed call. The sandbox controller handles a sandbox with an unresponsive agent, so
   * that no start occupies a worker for the sandbox.
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

/** Runs stages in order and applies their changes until one waits or fails. Returns the wait. */
async function runStages(stages: readonly Stage[], scope: Scope): Promise<StageResult['wait']> {
  for (const stage of stages) {
    const { wait, failure, ...changes } = await stage(scope);
    Object.assign(scope, changes);
    if (failure !== undefined) throw failure;
    if (wait !== undefined) return wait;
  }
  return undefined;
}
