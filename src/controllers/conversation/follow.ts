import type { Logger } from '@conversation-operator/base/logger';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { Request } from '@conversation-operator/kube/controller';
import { AgentError } from '../../agent/errors.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import type { AgentConfigurations } from './agent-configuration.ts';
import type { Approvals } from './approvals/approvals.ts';
import type { BudgetQuestions } from './budget/budget-questions.ts';
import { withBudgetQuestionWithdrawn } from './budget/decide.ts';
import { withQuestionWithdrawn } from './approvals/decide.ts';
import type { RunControl } from './execution/run-control.ts';
import type { PolledRun } from './execution/run-observer.ts';
import { withRunUnknown, withSandboxAway } from './execution/sandbox-away.ts';
import type { Delivery } from './messages/delivery.ts';
import type { ConversationPoller } from './polling/conversation-poller.ts';
import type { NewOwner } from './new-owner.ts';
import type { Scope } from './scope.ts';
import type { StatusWriter } from './status-writer.ts';

export interface FollowingOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly configurations: AgentConfigurations;
  readonly approvals: Approvals;
  readonly budgets: Pick<BudgetQuestions, 'settle' | 'ask'>;
  readonly poller: ConversationPoller;
  readonly newOwner: Pick<NewOwner, 'provide'>;
  readonly runs: RunControl;
  readonly delivery: Delivery;
  readonly writer: Pick<StatusWriter, 'forget'>;
}

/** Follows a conversation after its start: its sandbox, its agent and the requests of its users. */
export class Following {
  readonly #options: FollowingOptions;

  constructor(options: FollowingOptions) {
    this.#options = options;
  }

  forget(conversation: Request): void {
    const { poller, writer, runs, delivery } = this.#options;
    for (const part of [poller, writer, runs, delivery]) part.forget(conversation);
  }

  /**
   * Stores the answer of a person to a question and, if the question is about a budget, does what
   * the answer says. Then follows the agent, and asks about a budget that holds up the run. Returns
   * the milliseconds until the next reconcile.
   */
  async advance(scope: Scope): Promise<number | undefined> {
    const { approvals, budgets } = this.#options;
    await approvals.record(scope);
    await budgets.settle(scope);
    return earliest([await this.#followAgent(scope), budgets.ask(scope)]);
  }

  /**
   * Polls the agent. If the agent reports: updates the run, stores the agent's question or sends it
   * the answer, and delivers messages. Returns the milliseconds until the next attempt.
   */
  async #followAgent(scope: Scope): Promise<number | undefined> {
    const { approvals, delivery, newOwner, poller, logger } = this.#options;
    const run = await this.#poll(scope);
    if (typeof run !== 'object') return run;
    try {
      // Nothing of the conversation goes on before the agent has what is the new owner's.
      await newOwner.provide(scope, run);
      const steps = [
        await this.#followRun(scope, run),
        await approvals.follow(scope, run),
        await delivery.follow(scope, run),
      ];
      return earliest(steps);
    } catch (error) {
      const { poll, signal } = scope;
      if (!(error instanceof AgentError) || signal.aborted || poll === undefined) throw error;
      const { name } = scope.stored.metadata;
      logger.debug('agent call failed', { conversation: name, code: error.code, error });
      scope.poll = undefined;
      return poller.recordFailure(poll, error);
    }
  }

  /** Polls the agent. Returns the milliseconds until the next reconcile when there is no report. */
  async #poll(scope: Scope): Promise<PolledRun | number | undefined> {
    const { clock, configurations, poller, writer } = this.#options;
    const { stored, sandbox, signal } = scope;
    const view = viewOfSandbox(sandbox);
    const id = conversationIdOf(stored);
    const now = isoTime(clock);
    if (view.phase !== 'RUNNING' || sandbox === undefined) {
      poller.forget(stored.metadata, scope.status.sandboxUID);
      writer.forget(stored.metadata);
      scope.status = withSandboxAway(scope.status, { id, sandbox, view, now });
      if (view.phase === 'MISSING')
        scope.status = withQuestionWithdrawn(
          withBudgetQuestionWithdrawn(scope.status, now),
          now,
          'the sandbox is gone',
        );
      return undefined;
    }
    const poll = await poller.poll(stored, sandbox, signal);
    if (poll === undefined) return undefined;
    if ('laterMs' in poll) {
      const { laterMs, error, isUnresponsive } = poll;
      if (!isUnresponsive && error !== undefined) await this.#malformed(scope, sandbox, error);
      return laterMs;
    }
    scope.poll = poll;
    const { state, target } = poll;
    if (state !== undefined)
      return {
        state,
        sandbox,
        id,
        endpoint: target.endpoint,
        shown: (text, maxLength) =>
          configurations.shown(text, { conversation: stored, sandbox }, maxLength),
        secrets: () => configurations.secretsOf(stored, sandbox, signal),
      };
    const why = 'the agent has lost the conversation';
    scope.status = {
      ...withQuestionWithdrawn(withBudgetQuestionWithdrawn(scope.status, now), now, why),
      executionStatus: 'error',
      executionDetail: 'The agent no longer knows the conversation.',
    };
    return undefined;
  }

  async #followRun(scope: Scope, run: PolledRun): Promise<number | undefined> {
    const { poller, runs } = this.#options;
    const observation = await runs.observe(scope, run).catch(async (error: unknown) => {
      // A report counts as malformed if the agent does not tell the cause of its error.
      if (error instanceof AgentError) await this.#malformed(scope, run.sandbox, error);
      throw error;
    });
    const againAfterMs = observation.againAfterMs ?? (await runs.follow(scope, run, observation));
    poller.recordUnderstood(scope.stored.metadata);
    return againAfterMs;
  }

  /** Stores that the state of the run is unknown, once reports have been malformed for too long. */
  async #malformed(scope: Scope, sandbox: Sandbox, error: AgentError): Promise<void> {
    const { clock, configurations, poller } = this.#options;
    if (!poller.recordMalformed(scope.stored.metadata)) return;
    const why = await configurations.shown(error.message, { conversation: scope.stored, sandbox });
    scope.status = withRunUnknown(scope.status, { sandbox, why, now: isoTime(clock) });
  }
}

/** The shortest of the times until a next attempt; undefined if there is none. */
function earliest(times: readonly (number | undefined)[]): number | undefined {
  const due = times.filter((ms) => ms !== undefined);
  return due.length === 0 ? undefined : Math.min(...due);
}
