import type { Clock } from '@conversation-operator/kube/clock';
import { ApiError, TransportError } from '@conversation-operator/kube/errors';
import { NotLeadingError } from '@conversation-operator/kube/leader-election';

/** Whether a write that failed like this may have been executed, or may yet be. */
export const outcomeUnknown = (error: unknown): boolean => {
  if (error instanceof ApiError) return error.status >= 500;
  if (error instanceof TransportError) return error.sent;
  return !(error instanceof NotLeadingError);
};

interface Creation {
  underWay: number;
  /** By the monotonic clock. */
  until: number;
}

/**
 * Which sandboxes may still get a pod out of a creation that was sent. As long as that is so, that no pod can be found says
 * nothing. Of this process alone: whoever leads next has waited until nothing of it can be executed any more.
 */
export class PodCreations {
  readonly #clock: Clock;
  readonly #settleMs: number;
  readonly #creations = new Map<string, Creation>();

  /** `settleMs`: within so long after it was sent, a write has been executed or never will be. */
  constructor(clock: Clock, settleMs = 10_000) {
    this.#clock = clock;
    this.#settleMs = settleMs;
  }

  /** Runs what may create a pod for the sandbox of this uid. Has to begin before the last look at whether the pod may be. */
  async during<T>(sandboxUid: string, work: () => Promise<T>): Promise<T> {
    const creation = this.#creations.get(sandboxUid) ?? { underWay: 0, until: Number.NEGATIVE_INFINITY };
    this.#creations.set(sandboxUid, creation);
    creation.underWay++;
    try {
      return await work();
    } finally {
      creation.underWay--;
      if (creation.underWay === 0 && creation.until < this.#clock.monotonic()) this.#creations.delete(sandboxUid);
    }
  }

  /** A creation has failed, within `during`. */
  failed(sandboxUid: string, error: unknown): void {
    const creation = this.#creations.get(sandboxUid);
    if (creation !== undefined && outcomeUnknown(error)) creation.until = this.#clock.monotonic() + this.#settleMs;
  }

  /** Milliseconds until none can be executed any more; 0 when that is so already. Of one that is under way: when to ask again. */
  unsettledMs(sandboxUid: string): number {
    const creation = this.#creations.get(sandboxUid);
    if (creation === undefined) return 0;
    const left = Math.max(0, creation.until - this.#clock.monotonic());
    if (creation.underWay > 0) return Math.max(left, askAgainMs);
    if (left === 0) this.#creations.delete(sandboxUid);
    return left;
  }
}

const askAgainMs = 200;
