import { isoTime, type Clock, type Timer } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isNotFound } from '@conversation-operator/kube/errors';
import type { EventRecorder } from '@conversation-operator/kube/events';
import type { Exhausted } from '../../budget/ledger.ts';
import { formatAmount, parseAmount, sumOf } from '../../budget/money.ts';
import { isBudgetQuestion } from '../../resources/approval.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations } from '../../resources/conversation.ts';
import type { BudgetExhaustion, ConversationStatus } from '../../resources/conversation-status.ts';
import { writeOnStored } from '../lookup/stored.ts';
import type { BudgetInForce } from './budgets-in-force.ts';

export interface BudgetExhaustionsOptions {
  readonly client: Pick<KubeClient, 'get' | 'mergePatch'>;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface RefusedCall {
  readonly conversation: CachedConversation;
  readonly exhausted: Exhausted<BudgetInForce>;
  /** Text that the agent reads, for the Event. */
  readonly message: string;
}

/** Minimum time between two looks at one conversation, however often its agent calls. */
const intervalMs = 2_000;
/** Maximum time that a refusal waits for the API server, with all of its repetitions. */
const deadlineMs = 2_000;

interface Look {
  readonly done: Promise<void>;
  /** The last refusal since the look began, which the next look stores. */
  next: RefusedCall | undefined;
  timer: Timer | undefined;
}

/**
 * Stores at a conversation that a budget is used up, so that the operator asks a person. All
 * refusals that come while one is being stored, and in the two seconds after it, are stored
 * together at the end of that time: the operator may have removed the first one meanwhile, for
 * example for a message, and the run of that message was refused again.
 */
export class BudgetExhaustions {
  readonly #options: BudgetExhaustionsOptions;
  /** By UID of the conversation. An entry lasts until a look of which no refusal follows. */
  readonly #looks = new Map<string, Look>();
  #isClosed = false;

  constructor(options: BudgetExhaustionsOptions) {
    this.#options = options;
  }

  /** Resolves when the first refusal is stored, or can't be. Never rejects. */
  record(call: RefusedCall): Promise<void> {
    const look = this.#looks.get(call.conversation.metadata.uid);
    if (look === undefined) return this.#look(call);
    look.next = call;
    return look.timer === undefined ? look.done : Promise.resolve();
  }

  close(): void {
    this.#isClosed = true;
    for (const { timer } of this.#looks.values()) timer?.cancel();
    this.#looks.clear();
  }

  #look(call: RefusedCall): Promise<void> {
    const { clock, logger } = this.#options;
    const { uid, name } = call.conversation.metadata;
    const done = this.#store(call).catch((error: unknown) => {
      logger.warn('An exhausted budget was not stored', { conversation: name, error });
      look.next ??= call;
    });
    const look: Look = { done, next: undefined, timer: undefined };
    this.#looks.set(uid, look);
    void done.then(() => {
      if (this.#isClosed) return;
      look.timer = clock.after(intervalMs, () => {
        this.#looks.delete(uid);
        if (look.next !== undefined) void this.#look(look.next);
      });
    });
    return done;
  }

  async #store({ conversation, exhausted, message }: RefusedCall): Promise<void> {
    const { client, clock, events } = this.#options;
    const { namespace, name, uid } = conversation.metadata;
    const next = exhaustionOf(exhausted, isoTime(clock));
    const isStored = await writeOnStored(
      () =>
        client.get(conversations, namespace, name, { deadlineMs }).catch((error: unknown) => {
          if (isNotFound(error)) return undefined;
          throw error;
        }),
      async (stored) => {
        if (
          stored?.metadata.uid !== uid ||
          stored.spec.owner !== conversation.spec.owner ||
          !isNews(next, stored.status)
        )
          return false;
        const { resourceVersion } = stored.metadata;
        // A merge patch keeps the other fields, so null removes those that the new budget lacks.
        const patch = { quota: null, resetTime: null, ...next };
        await client.mergePatch(
          conversations,
          namespace,
          name,
          { metadata: { resourceVersion }, status: { budgetExhaustion: patch } },
          { subresource: 'status', deadlineMs },
        );
        return true;
      },
    );
    if (isStored)
      events.record(conversation, { type: 'Warning', reason: 'BudgetExhausted', message });
  }
}

function exhaustionOf(
  { budget, spent, raised }: Exhausted<BudgetInForce>,
  time: string,
): BudgetExhaustion {
  const { quota, record, account, unit, limit, endsAtMs } = budget;
  const shown = (amount: number): string => formatAmount(amount, unit);
  return {
    ...(quota === undefined ? {} : { quota }),
    record: record.name,
    account,
    unit,
    limit: shown(limit),
    raised: shown(raised),
    spent: shown(spent),
    time,
    ...(Number.isFinite(endsAtMs) ? { resetTime: new Date(endsAtMs).toISOString() } : {}),
  };
}

/**
 * Whether a refusal says more than the stored one: another budget, or one that people have raised
 * since. The budget of an open question stays, because the answer is about it.
 */
function isNews(
  next: BudgetExhaustion,
  { budgetExhaustion: known, approval }: ConversationStatus = {},
): boolean {
  if (known === undefined) return true;
  if (approval !== undefined && isBudgetQuestion(approval)) return false;
  if (known.record !== next.record || known.account !== next.account) return true;
  return totalOf(next) > totalOf(known);
}

const totalOf = ({ limit, raised, unit }: BudgetExhaustion): number =>
  sumOf(parseAmount(limit, unit), parseAmount(raised, unit));
