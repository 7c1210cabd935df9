import { isoTime } from '@conversation-operator/base/clock';
import { found } from '@conversation-operator/kube/errors';
import { amountOf, boundOf, formatAmount, parseAmount, sumOf } from '../../../budget/money.ts';
import { Periods } from '../../../budget/period.ts';
import type { Approval, RecordedAnswer } from '../../../resources/approval.ts';
import { conversations } from '../../../resources/conversation.ts';
import type { BudgetExhaustion } from '../../../resources/conversation-status.ts';
import {
  resumeRequestedAnnotation,
  runRequestedAnnotation,
  sandboxes,
} from '../../../resources/sandbox.ts';
import { usageRecords } from '../../../resources/usage-record.ts';
import { viewOfSandbox } from '../../../status/sandbox-phase.ts';
import type { Stores } from '../../caches.ts';
import type { CommonNeeds } from '../../controller-spec.ts';
import { storedConversation, storedObject } from '../../stored-object.ts';
import type { Scope } from '../scope.ts';
import {
  budgetQuestionOf,
  hasRoom,
  isStoppedRun,
  questionOf,
  raiseOf,
  withBudgetQuestion,
  withBudgetQuestionWithdrawn,
  withBudgetRaised,
  withBudgetRejected,
  withBudgetRoom,
  withRaise,
  type BudgetFacts,
} from './decide.ts';

export interface BudgetQuestionsOptions extends CommonNeeds {
  readonly stores: Pick<Stores, 'quotas' | 'usageRecords'>;
}

/** Maximum time until the operator looks again whether a budget has room. */
const maxLookMs = 3_600_000;
const againAfterMs = 500;

interface Answered {
  readonly question: Approval;
  readonly answer: RecordedAnswer;
  readonly exhaustion: BudgetExhaustion;
}

/**
 * Asks whether a run may go on whose budget is used up, and does what the answer says
 * (`decide.ts` has the decisions):
 *
 * 1. The relay of the gateway refuses a call, and stores `status.budgetExhaustion`.
 * 2. Once the run has stopped, `ask` stores the question. The admission then pauses the sandbox.
 * 3. A person answers in `spec.approvals`, which `Approvals.record` copies to the status.
 * 4. `settle` first raises the budget, then resumes the sandbox, and only then closes the question.
 *    Each step recognises that it is done, so that a process that ends in between repeats nothing.
 * 5. The run is interrupted by the budget, and so continues as any interrupted run.
 */
export class BudgetQuestions {
  readonly #options: BudgetQuestionsOptions;
  readonly #periods = new Periods();

  constructor(options: BudgetQuestionsOptions) {
    this.#options = options;
  }

  /** Does what an answer says, or ends a question whose budget has room again. */
  async settle(scope: Scope): Promise<void> {
    const { clock } = this.#options;
    const { budgetExhaustion: exhaustion } = scope.status;
    const question = budgetQuestionOf(scope.status);
    if (exhaustion === undefined) {
      if (question !== undefined)
        scope.status = withBudgetQuestionWithdrawn(scope.status, isoTime(clock));
      return;
    }
    const answer = question?.answer;
    if (question !== undefined && answer !== undefined)
      await this.#apply(scope, { question, answer, exhaustion });
    else if (question !== undefined && hasRoom(exhaustion, this.#facts(scope, exhaustion)))
      scope.status = withBudgetQuestionWithdrawn(scope.status, isoTime(clock));
  }

  /**
   * Asks if a budget holds up a run that has stopped. Returns the milliseconds until the next look
   * at the budget.
   */
  ask(scope: Scope): number | undefined {
    const { clock } = this.#options;
    const { status, stored } = scope;
    const { budgetExhaustion: exhaustion } = status;
    if (exhaustion === undefined) return undefined;
    // The stored status may be older than a run that the agent has just begun.
    const isCurrent =
      scope.poll?.state !== undefined || viewOfSandbox(scope.sandbox).phase !== 'RUNNING';
    if (status.approval === undefined && isCurrent && isStoppedRun(stored.spec, status)) {
      const now = isoTime(clock);
      const { agentEpoch = 0 } = status;
      const facts = this.#facts(scope, exhaustion);
      if (hasRoom(exhaustion, facts)) {
        scope.status = withBudgetRoom(status, now);
        return againAfterMs;
      }
      const offered = raiseOf(exhaustion, facts);
      const question = questionOf(exhaustion, facts, { agentEpoch, now, offered });
      scope.status = withBudgetQuestion(status, question, now);
    }
    const { resetTime } = exhaustion;
    if (resetTime === undefined) return undefined;
    return Math.min(maxLookMs, Math.max(againAfterMs, Date.parse(resetTime) - clock.now()));
  }

  #facts({ stored }: Scope, { record, account: key }: BudgetExhaustion): BudgetFacts {
    const { stores, clock } = this.#options;
    const { namespace } = stored.metadata;
    const known = stores.usageRecords.get(namespace, record);
    return {
      conversation: stored,
      quotas: stores.quotas.list().filter(({ metadata }) => metadata.namespace === namespace),
      account: known?.status?.accounts?.find((account) => account.key === key),
      periods: this.#periods,
      nowMs: clock.now(),
    };
  }

  async #apply(scope: Scope, answered: Answered): Promise<void> {
    const { clock } = this.#options;
    const { question, answer, exhaustion } = answered;
    if (!answer.accept) {
      scope.status = withBudgetRejected(scope.status, isoTime(clock));
      return;
    }
    const refusal =
      exhaustion.quota === undefined
        ? await this.#raiseOwn(scope, answered)
        : await this.#raiseQuota(scope, answered);
    if (refusal !== undefined) {
      scope.status = withBudgetQuestionWithdrawn(scope.status, isoTime(clock), refusal);
      scope.status = { ...scope.status, budgetExhaustion: exhaustion, lostAnswer: question.id };
      return;
    }
    await this.#resume(scope);
    scope.status = withBudgetRaised(scope.status, isoTime(clock));
  }

  /** Adds the raise to the UsageRecord. Returns why not; undefined once the record has it. */
  async #raiseQuota(
    { stored, signal }: Scope,
    { question: { id, raise }, answer, exhaustion }: Answered,
  ): Promise<string | undefined> {
    const { client, clock, stores } = this.#options;
    if (raise === undefined) return 'The question names no raise.';
    const { namespace } = stored.metadata;
    const { record: name, account: key, unit, quota } = exhaustion;
    // A conflict ends this reconcile, and the next one reads the record again.
    const record = await found(client.get(usageRecords, namespace, name, { signal }));
    // Where somebody has deleted the record, nothing is spent of the budget.
    if (record === undefined) return undefined;
    const accounts = record.status?.accounts ?? [];
    const known = accounts.find((account) => account.key === key) ?? { key, unit, spent: '0' };
    const { maxRaise = 0 } = stores.quotas.get(namespace, quota ?? '')?.spec.budget ?? {};
    const outcome = withRaise(
      known,
      {
        id,
        amount: raise.amount,
        time: isoTime(clock),
        ...(answer.by === undefined ? {} : { by: answer.by }),
        ...(raise.decidedBy === 'Admin' ? { admin: true } : {}),
      },
      boundOf(maxRaise, unit),
    );
    if (outcome.kind === 'refused') return outcome.message;
    if (outcome.kind === 'done') return undefined;
    const others = accounts.filter((account) => account.key !== key);
    const status = { ...record.status, accounts: [...others, outcome.account] };
    await client.updateStatus(usageRecords, { ...record, status }, { signal });
    return undefined;
  }

  /** Raises the budget of the conversation to an absolute amount, so that a repetition is harmless. */
  async #raiseOwn(
    { stored: known, signal }: Scope,
    { question: { raise }, exhaustion: { unit, limit } }: Answered,
  ): Promise<string | undefined> {
    const { client } = this.#options;
    const stored = await storedConversation({ client, signal }, known);
    const budget = stored?.spec.budget;
    if (stored === undefined || budget === undefined || raise === undefined)
      return 'The conversation has no budget of its own any more.';
    const wanted = sumOf(parseAmount(limit, unit), parseAmount(raise.amount, unit));
    if (amountOf(budget.amount, unit) >= wanted) return undefined;
    const { namespace, name, resourceVersion } = stored.metadata;
    await client.mergePatch(
      conversations,
      namespace,
      name,
      {
        metadata: { resourceVersion },
        spec: { budget: { amount: Number(formatAmount(wanted, unit)) } },
      },
      { signal },
    );
    return undefined;
  }

  /** Requests the sandbox and the run on behalf of the person who has allowed the raise. */
  async #resume({ sandbox, stored: conversation, signal }: Scope): Promise<void> {
    const { client, clock } = this.#options;
    if (sandbox === undefined || viewOfSandbox(sandbox).phase !== 'PAUSED') return;
    const stored = await storedObject({ client, signal }, sandboxes, sandbox);
    // A sandbox that moves to another owner, or has moved, resumes for no answer of the old owner.
    if (stored?.spec.handover !== undefined || stored?.spec.owner !== conversation.spec.owner)
      return;
    const { namespace, name, resourceVersion, generation } = stored.metadata;
    const annotations = {
      [resumeRequestedAnnotation]: isoTime(clock),
      [runRequestedAnnotation]: String(stored.spec.replicas === 1 ? generation : generation + 1),
    };
    const patch = { metadata: { resourceVersion, annotations }, spec: { replicas: 1 as const } };
    await found(client.mergePatch(sandboxes, namespace, name, patch, { signal }));
  }
}
