import type { Clock } from '@conversation-operator/base/clock';
import type { Amount, BudgetLedger, Exhausted, Reservation } from '../../budget/ledger.ts';
import type { RecordKey } from '../../budget/record-store.ts';
import { shownAmount, shownSpent } from '../../budget/money.ts';
import { shownMinute } from '../../budget/period.ts';
import { maxTokensOfImage, type ModelCall } from '../../models/apis/model-api.ts';
import type { ModelPrice } from '../../models/model-price.ts';
import type { PriceBook } from '../../models/prices.ts';
import type { TokenUsage } from '../../models/usage.ts';
import { deltaOf, type UsageDelta } from '../../models/usage-rows.ts';
import {
  maxOutputWithin,
  minOutputTokens,
  worstCaseOf,
  type WorstCase,
} from '../../models/worst-case.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { defaultMaxOutputTokens } from '../../resources/model-settings.ts';
import type { BudgetExhaustions } from './budget-exhaustions.ts';
import type { BudgetWarnings } from './budget-warnings.ts';
import type { BudgetInForce } from './budgets-in-force.ts';
import type { CallHolder } from './call-holder.ts';
import { CallRefused } from './call-refused.ts';
import { recordKeyOf } from './usage-store.ts';

/** How a call has ended. */
export type CallOutcome =
  /** The provider has certainly not answered. */
  | { readonly kind: 'not-made' }
  /** The provider has answered with an error, for which providers charge nothing. */
  | { readonly kind: 'failed' }
  /** An unknown part of the answer was made, so that all that was reserved counts as spent. */
  | { readonly kind: 'broken' }
  | { readonly kind: 'answered'; readonly usage: TokenUsage };

export interface AskedCall extends CallHolder {
  readonly asked: ModelCall;
  readonly bodyBytes: number;
  /** Value of the header anthropic-beta, by which an agent asks for more than the model has. */
  readonly beta: string;
  readonly baseUrl: string;
  readonly signal: AbortSignal;
}

/** The account of one call. Only the first `settle` has an effect. */
export interface OpenAccount {
  /** Maximum output tokens that the request has to have; undefined: no budget holds. */
  readonly limit: number | undefined;
  settle(outcome: CallOutcome): void;
}

/** The accounts of calls, as the relay sees them. */
export interface CallAccounts {
  /** Whether a budget in money holds for the conversation. */
  isInMoney(conversation: CachedConversation): boolean;
  /** Reserves the worst case of the call. Throws `CallRefused` where a budget does not allow it. */
  open(call: AskedCall): Promise<OpenAccount>;
}

export interface BudgetedAccountsOptions {
  readonly ledger: Pick<BudgetLedger, 'reserve' | 'requestWrite'>;
  readonly usage: { add(key: RecordKey, delta: UsageDelta): void };
  readonly prices: PriceBook;
  /** The budgets that hold for a conversation at present. */
  readonly budgetsOf: (conversation: CachedConversation) => readonly BudgetInForce[];
  readonly namespace: string;
  readonly exhaustions: Pick<BudgetExhaustions, 'record'>;
  readonly warnings: Pick<BudgetWarnings, 'watch'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly metrics: Pick<Metrics, 'modelCalls' | 'modelTokens' | 'modelCost'>;
}

interface PricedCall extends AskedCall {
  readonly price: ModelPrice | undefined;
  readonly budgets: readonly BudgetInForce[];
}

/** Reserves at the ledger before a call, and counts what the call has cost. */
export class BudgetedAccounts implements CallAccounts {
  readonly #options: BudgetedAccountsOptions;

  constructor(options: BudgetedAccountsOptions) {
    this.#options = options;
  }

  isInMoney(conversation: CachedConversation): boolean {
    return this.#options.budgetsOf(conversation).some(({ unit }) => unit === 'USD');
  }

  async open(call: AskedCall): Promise<OpenAccount> {
    const { prices, budgetsOf } = this.#options;
    const price = prices.priceOf({
      model: call.asked.model,
      baseUrl: call.baseUrl,
      overrides: call.template.spec.models?.prices,
    });
    const budgets = budgetsOf(call.conversation);
    const priced = { ...call, price, budgets };
    return budgets.length === 0
      ? { limit: undefined, settle: once((outcome) => this.#settle(priced, undefined, outcome)) }
      : this.#reserve(priced);
  }

  async #reserve(call: PricedCall): Promise<OpenAccount> {
    const { asked, budgets, conversation, signal, price } = call;
    const isInMoney = budgets.some(({ unit }) => unit === 'USD');
    if (isInMoney) checkPrice(call);
    else if (asked.runsAtProvider)
      throw notAllowed(
        `A budget in tokens holds, and nothing bounds the tokens of ${asked.surcharge ?? 'this call'}. Leave it out.`,
      );
    const bound = boundOf(call);
    const { isSelfContained } = asked;
    const atMs = this.#options.clock.now();
    const worst = ({ inputTokens, outputTokens }: WorstCase): number =>
      isInMoney && price !== undefined
        ? price.worst(
            { maxInputTokens: inputTokens, maxOutputTokens: outputTokens, isSelfContained },
            atMs,
          )
        : 0;
    const amountOf = (perAnswer: number): Amount => {
      const tokens = { ...bound, outputTokens: perAnswer * asked.answers };
      return { nanos: worst(tokens), tokens: tokens.inputTokens + tokens.outputTokens };
    };
    const wanted = asked.maxOutputTokens ?? defaultOutputOf(call);
    const least = Math.min(wanted, Math.max(asked.minOutputTokens, minOutputTokens));
    const { ledger, exhaustions, warnings } = this.#options;
    warnings.watch(conversation, budgets);
    const reserved = await ledger.reserve({
      owner: conversation.spec.owner,
      budgets,
      want: amountOf(wanted),
      least: amountOf(least),
      signal,
    });
    if ('reason' in reserved) {
      const refused = refusedBy(reserved);
      if (refused.kind === 'budget')
        await exhaustions.record({ conversation, exhausted: reserved, message: refused.message });
      throw refused;
    }
    const perAnswer = maxOutputWithin({
      inputTokens: bound.inputTokens,
      answers: asked.answers,
      wanted,
      least,
      ...reserved.granted,
      worst,
    });
    if (perAnswer === undefined) {
      reserved.release();
      throw new Error('the ledger has granted less than the least amount');
    }
    return { limit: perAnswer, settle: once((outcome) => this.#settle(call, reserved, outcome)) };
  }

  #settle(call: PricedCall, reserved: Reservation | undefined, outcome: CallOutcome): void {
    const { metrics } = this.#options;
    metrics.modelCalls.inc({ api: call.asked.api, outcome: outcome.kind });
    if (outcome.kind === 'not-made' || outcome.kind === 'failed') {
      reserved?.release();
    } else if (outcome.kind === 'broken') {
      if (reserved !== undefined) reserved.settle(reserved.granted);
      this.#count(call, noTokens, reserved?.granted.nanos ?? 0);
    } else {
      const { usage } = outcome;
      const nanos = this.#costOf(call, usage);
      reserved?.settle({ nanos, tokens: usage.inputTokens + usage.outputTokens });
      this.#count(call, usage, nanos);
    }
  }

  #costOf({ price, asked }: PricedCall, usage: TokenUsage): number {
    return price?.cost(usage, this.#options.clock.now(), asked.isSelfContained) ?? 0;
  }

  /** Adds the call to the sums of its owner. */
  #count({ asked, conversation }: PricedCall, usage: TokenUsage, nanos: number): void {
    const { clock, ledger, usage: sums, namespace, metrics } = this.#options;
    const day = new Date(clock.now()).toISOString().slice(0, 10);
    const subject = { owner: conversation.spec.owner, month: day.slice(0, 7) };
    const record = recordKeyOf(namespace, subject);
    const { templateName: template } = conversation.spec;
    const { name } = conversation.metadata;
    sums.add(
      record,
      deltaOf({ day, model: asked.model, template, conversation: name, nanos }, usage),
    );
    ledger.requestWrite(record);
    metrics.modelTokens.inc({ kind: 'input' }, usage.inputTokens);
    metrics.modelTokens.inc({ kind: 'cached' }, usage.cachedInputTokens);
    metrics.modelTokens.inc({ kind: 'output' }, usage.outputTokens);
    metrics.modelCost.inc({}, nanos / 1e9);
  }
}

const noTokens: TokenUsage = {
  inputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
};

function once(settle: (outcome: CallOutcome) => void): (outcome: CallOutcome) => void {
  let isSettled = false;
  return (outcome) => {
    if (isSettled) return;
    isSettled = true;
    settle(outcome);
  };
}

const defaultOutputOf = ({ template }: AskedCall): number =>
  template.spec.models?.maxOutputTokens ?? defaultMaxOutputTokens;

const notAllowed = (message: string) => new CallRefused('not-allowed', message);

/** Throws `CallRefused` for a call whose cost nothing bounds. */
function checkPrice({ asked, beta, price }: PricedCall): void {
  if (price === undefined)
    throw notAllowed(
      `The model ${asked.model} has no price, and a budget in money holds. The platform has to name its price in models.prices.`,
    );
  const window = price.contextWindow ?? 0;
  const isLonger = beta.includes('context-1m') && window < 1_000_000;
  const surcharge = asked.surcharge ?? (isLonger ? `anthropic-beta "context-1m"` : undefined);
  if (surcharge !== undefined)
    throw notAllowed(
      `A budget in money holds, and what the provider charges for ${surcharge} can't be known before the call. Leave it out.`,
    );
}

function boundOf({ asked, bodyBytes, price }: PricedCall): WorstCase {
  const bound = worstCaseOf({
    call: asked,
    bodyBytes,
    tokensPerImage: maxTokensOfImage[asked.api],
    contextWindow: price?.contextWindow,
    maxOutputDefault: defaultMaxOutputTokens,
  });
  if (bound !== undefined) return bound;
  throw notAllowed(
    `A budget holds, and the input of this call can't be bounded: it refers to content outside of the request, and the context window of ${asked.model} is unknown. Send the content itself.`,
  );
}

function refusedBy({
  budget,
  reason,
  spent,
  raised,
  underWay,
}: Exhausted<BudgetInForce>): CallRefused {
  if (reason === 'unavailable')
    return new CallRefused(
      'busy',
      'The budget can not be checked at the moment, because the API server does not answer.',
      { retryAfterSeconds: 5 },
    );
  if (underWay > 0)
    return new CallRefused(
      'busy',
      'What is left of the budget is reserved by calls under way. Try again when they are over.',
      { retryAfterSeconds: 10 },
    );
  const end = Number.isFinite(budget.endsAtMs)
    ? ` It starts again at ${shownMinute(budget.endsAtMs)}.`
    : '';
  return new CallRefused(
    'budget',
    `The budget of ${shownAmount(budget.limit + raised, budget.unit)} is used up: ${shownSpent(spent, budget.unit)} are spent, and what is left is too little for this call.${end}`,
  );
}
