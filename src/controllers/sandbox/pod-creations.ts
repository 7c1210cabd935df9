import { sleep, type Clock } from '@conversation-operator/base/clock';
import { ApiError, mayBeExecuted, TransportError } from '@conversation-operator/kube/errors';
import { NotLeadingError } from '@conversation-operator/kube/leader-election';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { Sandbox } from '../../resources/sandbox.ts';

/** Whether a write that failed like this may have been executed, or may yet be. */
export const outcomeUnknown = (error: unknown): boolean =>
  error instanceof ApiError || error instanceof TransportError
    ? mayBeExecuted(error)
    : !(error instanceof NotLeadingError);

interface Creation {
  underWay: number;
  /** Time by the monotonic clock until which a failed creation may still be executed. */
  until: number;
}

/** Maximum time for which the admission of a sandbox proves that the sandbox is to run. */
const justAdmittedMs = 1_000;
/** The watch may be this much ahead of the answer to the admission that it shows. */
const answerDelayMs = 50;
const maxAdmissions = 500;

interface Admission {
  /** On the monotonic clock. */
  readonly sentAt: number;
  /** The version that the API server has stored; undefined for an error. */
  readonly version: Promise<string | undefined>;
}

/**
 * PodCreations knows which sandboxes may still get a pod out of a creation that was sent. As long
 * as one may, a read without a pod proves nothing. The record is that of this process alone: the
 * next leader has waited until no write of this process can be executed any more.
 */
export class PodCreations {
  readonly #clock: Clock;
  readonly #settleMs: number;
  readonly #creations = new Map<string, Creation>();
  /** By uid. */
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

  /** Records an admission that is just being sent; `stored` is what the API server answers. */
  admitting(uid: string, stored: Promise<Sandbox>): void {
    const version = stored.then(
      ({ metadata }) => metadata.resourceVersion,
      () => undefined,
    );
    this.#admissions.set(uid, { sentAt: this.#clock.monotonic(), version });
  }

  /**
   * Whether an admission that this process has sent within the last second stored this very
   * version. A slot that this process has freed since is one of a newer version, or of no version.
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
   * Milliseconds until no creation can be executed any more; 0 when none can. While one is under
   * way, the delay before the next call.
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

/** Delay before the next question while a creation is under way. */
const askAgainMs = 200;
