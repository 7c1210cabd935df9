import type { Clock } from '@conversation-operator/kube/clock';
import { LruMap } from '@conversation-operator/kube/lru-map';
import type { ConversationStatus } from '../../../resources/conversation.ts';

interface Silence {
  readonly sign: string;
  /** By the monotonic clock. */
  readonly since: number;
}

const maxRemembered = 20_000;
/** The agent's stored state lags behind: for so long after a run was stopped, what it says of running is old. */
const staleMs = 1_500;

/** Every event of an agent is one, and so is each time that somebody lets it run. Undefined: it does not run, or does not tell. */
const lastSignOf = ({ executionStatus, lastActivityTime, agentEpoch, interruption, messages }: ConversationStatus): string | undefined =>
  executionStatus === 'running' && lastActivityTime !== undefined
    ? [lastActivityTime, agentEpoch, interruption?.lastResumeTime, messages?.lastDeliveredTime].join('/')
    : undefined;

/**
 * For how long nothing has been heard of runs. An agent writes nothing while a tool runs or the model thinks, and does not tell the
 * one from the other, nor from a hang: so this is for those who know how long their tools take. That a run begins is no event
 * either (an action that waited is accepted), so no time that an agent tells is the beginning: it counts from when this process has
 * seen it run with nothing newer. Another process counts anew.
 */
export class Stalls {
  readonly #clock: Clock;
  readonly #silences = new LruMap<string, Silence>(maxRemembered);
  /** When each was stopped, or was tried to be. */
  readonly #stoppedAt = new LruMap<string, number>(maxRemembered);

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Milliseconds for which nothing new has been heard, after this look. */
  look(key: string, status: ConversationStatus): number {
    const now = this.#clock.monotonic();
    const sign = lastSignOf(status);
    if (sign === undefined) {
      this.#silences.delete(key);
      return 0;
    }
    const known = this.#silences.get(key);
    if (known?.sign === sign) return now - known.since;
    this.#silences.set(key, { sign, since: now });
    return 0;
  }

  /** It was told to stop; one that did not take it is told again. */
  stopped(key: string, taken: boolean): void {
    this.#stoppedAt.set(key, this.#clock.monotonic());
    if (taken) this.#silences.delete(key);
  }

  /** Whether what its agent says of running may be from before it was stopped. */
  isStopping(key: string): boolean {
    const stoppedAt = this.#stoppedAt.get(key);
    return stoppedAt !== undefined && this.#clock.monotonic() - stoppedAt < staleMs;
  }
}
