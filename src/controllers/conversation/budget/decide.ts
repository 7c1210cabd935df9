import { createHash } from 'node:crypto';
import {
  amountOf,
  boundOf,
  formatAmount,
  parseAmount,
  shownAmount,
  shownSpent,
  storedAmount,
  sumOf,
} from '../../../budget/money.ts';
import { shownMinute, type Periods } from '../../../budget/period.ts';
import { accountOf, budgetsOf, quotaBudgets, type QuotaBudget } from '../../../quota/budgets.ts';
import { isBudgetQuestion, withClosed, type Approval } from '../../../resources/approval.ts';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import type { ConversationQuota } from '../../../resources/conversation-quota.ts';
import { undeliveredMessages } from '../../../resources/conversation.ts';
import type {
  BudgetExhaustion,
  ConversationStatus,
} from '../../../resources/conversation-status.ts';
import { uuidOf } from '../../../resources/ids.ts';
import type { BudgetCurrency } from '../../../resources/usage-counters.ts';
import { maxRaises, type UsageAccount, type UsageRaise } from '../../../resources/usage-record.ts';
import { Interruption, type InterruptedRun } from '../execution/interruption.ts';
import { messageOf, nextInterruption } from '../execution/run-resume.ts';
import { withAnswerDelivered } from '../approvals/decide.ts';

/** Facts about the budgets of a conversation. */
export interface BudgetFacts {
  readonly conversation: Pick<CachedConversation, 'metadata' | 'spec'>;
  /** All quotas of the namespace. */
  readonly quotas: readonly ConversationQuota[];
  /** The account that `budgetExhaustion` names; undefined if the record has none. */
  readonly account: UsageAccount | undefined;
  readonly periods: Periods;
  readonly nowMs: number;
}

/** The budget of the exhausted quota, if it still holds and counts in the exhausted account. */
function budgetInForce(
  { quota: name, record, account, unit }: BudgetExhaustion,
  { conversation: { metadata, spec }, quotas, periods, nowMs }: BudgetFacts,
): QuotaBudget | undefined {
  const { owner } = spec;
  const quota = budgetsOf(quotaBudgets(quotas), owner).find(({ quotaName }) => quotaName === name);
  if (quota?.currency !== unit) return undefined;
  const present = accountOf(quota, { namespace: metadata.namespace, owner, nowMs }, periods);
  return present.record.name === record && present.account === account ? quota : undefined;
}

/**
 * Whether the budget may have room again: it has begun anew, its amount was raised, or it does not
 * hold for the conversation any more. An exhaustion that the gateway stores late has a lower limit
 * than the account, and so counts as over, too.
 */
export function hasRoom(exhaustion: BudgetExhaustion, facts: BudgetFacts): boolean {
  const { unit } = exhaustion;
  const before = sumOf(parseAmount(exhaustion.limit, unit), parseAmount(exhaustion.raised, unit));
  if (exhaustion.quota === undefined) {
    const { budget } = facts.conversation.spec;
    return budget === undefined || amountOf(budget.amount, unit) > before;
  }
  const budget = budgetInForce(exhaustion, facts);
  if (budget === undefined) return true;
  const raised = storedAmount(facts.account?.raised ?? '0', unit);
  return sumOf(amountOf(budget.amount, unit), raised) > before;
}

export interface OfferedRaise {
  /** In nanos or tokens. */
  readonly amount: number;
  readonly decidedBy: 'Owner' | 'Admin';
}

const raisedByOwner = ({ raises = [] }: Pick<UsageAccount, 'raises'>, unit: BudgetCurrency) =>
  sumOf(
    ...raises.filter(({ admin }) => admin !== true).map(({ amount }) => storedAmount(amount, unit)),
  );

/**
 * The raise that a person may allow: what `maxRaise` leaves to the owner in this period, else the
 * amount of the budget, which an admin has to allow. A budget of the conversation is its owner's.
 */
export function raiseOf(exhaustion: BudgetExhaustion, facts: BudgetFacts): OfferedRaise {
  const { unit, limit } = exhaustion;
  if (exhaustion.quota === undefined)
    return { amount: parseAmount(limit, unit), decidedBy: 'Owner' };
  const budget = budgetInForce(exhaustion, facts);
  const amount = budget === undefined ? parseAmount(limit, unit) : amountOf(budget.amount, unit);
  const left = boundOf(budget?.maxRaise ?? 0, unit) - raisedByOwner(facts.account ?? {}, unit);
  return left > 0
    ? { amount: Math.min(left, amount), decidedBy: 'Owner' }
    : { amount, decidedBy: 'Admin' };
}

const options = { proceed: 'continue', stop: 'stop' } as const;

/**
 * The spending, in the same words for the owner and for an admin who decides for it: so they name
 * the owner. A raise holds for one period, so they name no amount a period.
 */
function spentWords(exhaustion: BudgetExhaustion, facts: BudgetFacts, limit: number): string {
  const { unit, quota } = exhaustion;
  const spent = shownSpent(parseAmount(exhaustion.spent, unit), unit);
  const budget = budgetInForce(exhaustion, facts);
  if (quota === undefined || budget === undefined)
    return `This conversation has spent ${spent} of its budget of ${shownAmount(limit, unit)}`;
  const { owner } = facts.conversation.spec;
  const who = budget.scope === 'Owner' ? `The owner ${owner} has` : 'All owners together have';
  return `${who} spent ${spent} of the budget of ${shownAmount(limit, unit)} for this ${budget.period.toLowerCase()} (quota ${quota})`;
}

/** The question whether the run may go on. Its id is new each time, so that an answer counts once. */
export function questionOf(
  exhaustion: BudgetExhaustion,
  facts: BudgetFacts,
  {
    agentEpoch,
    now,
    offered: { amount, decidedBy },
  }: { readonly agentEpoch: number; readonly now: string; readonly offered: OfferedRaise },
): Approval {
  const { unit, account, resetTime } = exhaustion;
  const { uid } = facts.conversation.metadata;
  const spent = parseAmount(exhaustion.spent, unit);
  const limit = sumOf(parseAmount(exhaustion.limit, unit), parseAmount(exhaustion.raised, unit));
  const more = shownAmount(amount, unit);
  const rest = spent < limit ? ', and the rest is too little for the next call' : '';
  const summary = [
    `Continue with ${more} more?`,
    `${spentWords(exhaustion, facts, limit)}${rest}.`,
    `With the raise, the budget is ${shownAmount(sumOf(limit, amount), unit)}, and the run continues where it was.`,
    ...(decidedBy === 'Admin' ? ['An administrator has to allow this.'] : []),
    ...(resetTime === undefined
      ? []
      : [
          `Without it, the run continues by itself when the budget starts again at ${shownMinute(Date.parse(resetTime))}.`,
        ]),
  ].join(' ');
  return {
    id: `budget-${uuidOf(`budget/${uid}/${account}/${now}`)}`,
    title: `The budget is used up. Continue with ${more} more?`,
    kind: 'budget',
    tool: 'budget',
    summary,
    text: '',
    complete: true,
    options: [
      { id: options.proceed, name: `Continue with ${more} more`, kind: 'allow_once' },
      { id: options.stop, name: 'Stop here', kind: 'reject_once' },
    ],
    requestedTime: now,
    callHash: createHash('sha256').update(summary).digest('hex'),
    agentEpoch,
    kept: true,
    raise: { amount: formatAmount(amount, unit), unit, decidedBy },
  };
}

/** The open question about a budget; undefined if there is none. */
export const budgetQuestionOf = ({ approval }: ConversationStatus): Approval | undefined =>
  approval !== undefined && isBudgetQuestion(approval) ? approval : undefined;

const active: ReadonlySet<unknown> = new Set([undefined, 'running', 'waiting_for_confirmation']);

/** Whether the run has stopped, and no message of a person is about to begin another one. */
export const isStoppedRun = (
  spec: CachedConversation['spec'],
  status: ConversationStatus,
): boolean =>
  !active.has(status.executionStatus) &&
  status.messages?.runPending !== true &&
  undeliveredMessages({ spec, status }).length === 0;

const withInterruption = (
  status: ConversationStatus,
  interruption: InterruptedRun,
): ConversationStatus => ({
  ...status,
  executionStatus: 'paused',
  executionDetail: messageOf(interruption),
  interruption,
});

/** Stores the question, and that the budget has interrupted the run. */
export function withBudgetQuestion(
  status: ConversationStatus,
  question: Approval,
  now: string,
): ConversationStatus {
  return interruptedByBudget({ ...status, approval: question }, now);
}

/** The budget has room again before anybody was asked: the run that it has stopped continues. */
export const withBudgetRoom = (status: ConversationStatus, now: string): ConversationStatus =>
  interruptedByBudget(withoutExhaustion(status), now);

function interruptedByBudget(status: ConversationStatus, now: string): ConversationStatus {
  const { interruption } = status;
  // A run that its owner has paused continues on request only, also when the period is over.
  const isPausedByUser =
    interruption?.reason === Interruption.user && interruption.lastResumeTime === undefined;
  return isPausedByUser
    ? status
    : withInterruption(status, nextInterruption(interruption, Interruption.budget, now));
}

function withoutExhaustion({
  budgetExhaustion: _exhaustion,
  ...status
}: ConversationStatus): ConversationStatus {
  return status;
}

/** Ends the question without an answer: the budget has room, or a message begins another run. */
export function withBudgetQuestionWithdrawn(
  status: ConversationStatus,
  now: string,
  message?: string,
): ConversationStatus {
  const question = budgetQuestionOf(status);
  if (question === undefined)
    return status.budgetExhaustion === undefined ? status : withoutExhaustion(status);
  const { approval: _approval, closedApprovals, ...rest } = withoutExhaustion(status);
  const closed = { id: question.id, outcome: 'Withdrawn', time: now } as const;
  return {
    ...rest,
    closedApprovals: withClosed(
      closedApprovals,
      message === undefined ? closed : { ...closed, message },
    ),
  };
}

/** The raise is stored: the run continues where it was, whoever has paused the sandbox meanwhile. */
export const withBudgetRaised = (status: ConversationStatus, now: string): ConversationStatus =>
  withInterruption(
    withAnswerDelivered(withoutExhaustion(status), now),
    nextInterruption(status.interruption, Interruption.budget, now),
  );

/** The person stops here. Only a message, or a request to run, continues. */
export function withBudgetRejected(status: ConversationStatus, now: string): ConversationStatus {
  const stopped = withAnswerDelivered(withoutExhaustion(status), now);
  return {
    ...stopped,
    executionStatus: 'paused',
    executionDetail:
      'The answer was to stop here. A message continues the run as far as the budget allows.',
    interruption: nextInterruption(status.interruption, Interruption.user, now),
  };
}

export type RaiseOutcome =
  | { readonly kind: 'raised'; readonly account: UsageAccount }
  /** An earlier attempt has stored the raise. */
  | { readonly kind: 'done' }
  | { readonly kind: 'refused'; readonly message: string };

/**
 * Adds a raise to an account once: the id of the question is in the record with the sum, so that a
 * repeated write and a write with an unknown outcome change nothing. `maxRaise` (in nanos or
 * tokens) is checked against the same version of the record that is written.
 */
export function withRaise(
  account: UsageAccount,
  raise: UsageRaise,
  maxRaise: number,
): RaiseOutcome {
  const { unit, raises = [], raised = '0' } = account;
  if (raises.some(({ id }) => id === raise.id)) return { kind: 'done' };
  const amount = parseAmount(raise.amount, unit);
  if (raise.admin !== true && sumOf(raisedByOwner(account, unit), amount) > maxRaise)
    return {
      kind: 'refused',
      message:
        'The raise had no effect: together with other raises it exceeds maxRaise of the quota.',
    };
  if (raises.length >= maxRaises)
    return {
      kind: 'refused',
      message: `The raise had no effect: the budget was raised ${maxRaises} times in this period. An administrator can raise budget.amount of the quota.`,
    };
  return {
    kind: 'raised',
    account: {
      ...account,
      raised: formatAmount(sumOf(storedAmount(raised, unit), amount), unit),
      raises: [...raises, raise],
    },
  };
}
