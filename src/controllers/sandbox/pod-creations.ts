import { sleep, type Clock } from '@conversation-operator/base/clock';
import { ApiError, mayBeExecuted, TransportError } from '@conversation-operator/kube/errors';
import { NotLeadingError } from '@conversation-operator/kube/leader-election';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { Sandbox } from '../../resources/sandbox.ts';

/** Whether a write that failed with this error may have been executed, or may yet be. */
export const outcomeUnknown = (error: unknown): boolean =>
  error instanceof ApiError || error instanceof TransportError
    ? mayBeExecuted(error)
    : !(error instanceof NotLeadingError);

interface Creation {
  underWay: number;
  /** Monotonic time until which a failed creation may still be executed. */
  until: number;
}

/** Maximum time for which the admission of a sandbox proves that the sandbox is to run. */
const justAdmittedMs = 1_000;
/** Maximum time by which the watch may show an admission before the response to it arrives. */
const answerDelayMs = 50;
const maxAdmissions = 500;

interface Admission {
  readonly sentAt: number;
  /** The version that the API server has stored; undefined for an error. */
  readonly version: Promise<string | undefined>;
}

/**
 * Records which sandboxes may still get a pod from a creation in flight. Until none can, a read
 * without a pod proves nothing. The record is local to this process: the next leader has waited
 * until no write of this process can be executed any more.
 */
export class PodCreations {
  readonly #clock: Clock;
  readonly #settleMs: number;
  readonly #creations = new Map<string, Creation>();
  readonly #admissions = recentlyUsed<Admission>(maxAdmissions);

  /** `settleMs`: maximum time between the sending of a write and its execution. */
  constructor(clock: Clock, settleMs = 10_000) {
    this.#clock = clock;
    this.#settleMs = settleMs;
  }

  /**
   * Runs `work`, which may create a pod for a sandbox. The call begins before the last read that
   * decides whether the pod may exist.
   */
  async during<T>(sandboxUid: string, work: () => Promise<T>): Promise<T> {
    const creation = this.#creations.get(sandboxUid) ?? {
      underWay: 0,
      until: Number.NEGATIVE_INFINITY,
    };
    this.#creations.set(sandboxUid, creation);
    creation.underWay++;
    try {
      return await work();
    } finally {
      creation.underWay--;
      if (creation.underWay === 0 && creation.until < this.#clock.monotonic())
        this.#creations.delete(sandboxUid);
    }
  }

  /** Records an admission that is being sent; `stored` is the response of the API server. */
  admitting(uid: string, stored: Promise<Sandbox>): void {
    const version = stored.then(
      ({ metadata }) => metadata.resourceVersion,
      () => undefined,
    );
    this.#admissions.set(uid, { sentAt: this.#clock.monotonic(), version });
  }

  /**
   * Whether an admission that this process has sent within the last second stored this very
   * version. A slot that this process has freed since has a newer version, or none.
   */
  async isJustAdmitted({ metadata: { uid, resourceVersion } }: Sandbox): Promise<boolean> {
    const admission = this.#admissions.get(uid);
    if (admission === undefined) return false;
    const version = await Promise.race([admission.version, sleep(this.#clock, answerDelayMs)]);
    return (
      version === resourceVersion && this.#clock.monotonic() - admission.sentAt <= justAdmittedMs
    );
  }

  /** Records that a creation has failed, within `during`. */
  failed(sandboxUid: string, error: unknown): void {
    const creation = this.#creations.get(sandboxUid);
    if (creation !== undefined && outcomeUnknown(error))
      creation.until = this.#clock.monotonic() + this.#settleMs;
  }

  /**
   * Milliseconds until no creation can be executed any more; 0 when none can. While one is in
   * flight, the delay before the next call.
   */
  unsettledMs(sandboxUid: string): number {
    const creation = this.#creations.get(sandboxUid);
    if (creation === undefined) return 0;
    const left = Math.max(0, creation.until - this.#clock.monotonic());
    if (creation.underWay > 0) return Math.max(left, askAgainMs);
    if (left === 0) this.#creations.delete(sandboxUid);
    return left;
  }
}

/** Delay before the next call while a creation is in flight. */
const askAgainMs = 200;
