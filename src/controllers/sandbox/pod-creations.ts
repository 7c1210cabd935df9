import { sleep, type Clock } from '@conversation-operator/base/clock';
import { ApiError, mayBeExecuted, TransportError } from '@conversation-operator/kube/errors';
import { NotLeadingError } from '@conversation-operator/kube/leader-election';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { Sandbox } from '../../resources/sandbox.ts';

/** Whether the API server may have executed, or may still execute, a write with this error. */
export const outcomeUnknown = (error: unknown): boolean =>
  error instanceof ApiError || error instanceof TransportError
    ? mayBeExecuted(error)
    : !(error instanceof NotLeadingError);

interface Creation {
  underWay: number;
  /** Monotonic time until which the API server may still execute a failed creation. */
  until: number;
}

/** Maximum age of an admission at which a pod is created without another read of the sandbox. */
const justAdmittedMs = 1_000;
/** Maximum wait for the response to an admission whose result a watch may already have shown. */
const answerDelayMs = 50;
const maxAdmissions = 500;

interface Admission {
  readonly sentAt: number;
  /** The stored resourceVersion; undefined if the write failed. */
  readonly version: Promise<string | undefined>;
}

/**
 * Records which sandboxes may still get a pod from a creation in flight. As long as one is in
 * flight, a read that finds no pod proves nothing. The record is local to this process: a new
 * leader begins only when no write of the previous leader can be executed any more.
 */
export class PodCreations {
  readonly #clock: Clock;
  readonly #settleMs: number;
  readonly #creations = new Map<string, Creation>();
  readonly #admissions = recentlyUsed<Admission>(maxAdmissions);

  /** `settleMs`: maximum milliseconds between the sending of a write and its execution. */
  constructor(clock: Clock, settleMs = 10_000) {
    this.#clock = clock;
    this.#settleMs = settleMs;
  }

  /**
   * Runs `work`, which may create a pod for a sandbox. `work` itself has to read whether the pod
   * may exist, so that the creation counts as in flight before that read.
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

  /** Records an admission in flight; `stored` is the response of the API server. */
  admitting(uid: string, stored: Promise<Sandbox>): void {
    const version = stored.then(
      ({ metadata }) => metadata.resourceVersion,
      () => undefined,
    );
    this.#admissions.set(uid, { sentAt: this.#clock.monotonic(), version });
  }

  /**
   * Whether an admission that this process sent within the last second has stored exactly this
   * resourceVersion. If this process has released the slot since then, the sandbox has a newer
   * resourceVersion or does not exist.
   */
  async isJustAdmitted({ metadata: { uid, resourceVersion } }: Sandbox): Promise<boolean> {
    const admission = this.#admissions.get(uid);
    if (admission === undefined) return false;
    const version = await Promise.race([admission.version, sleep(this.#clock, answerDelayMs)]);
    return (
      version === resourceVersion && this.#clock.monotonic() - admission.sentAt <= justAdmittedMs
    );
  }

  /** Records, within `during`, that a creation has failed. */
  failed(sandboxUid: string, error: unknown): void {
    const creation = this.#creations.get(sandboxUid);
    if (creation !== undefined && outcomeUnknown(error))
      creation.until = this.#clock.monotonic() + this.#settleMs;
  }

  /**
   * Milliseconds for which the API server may still execute a creation of the sandbox's pod; 0 if
   * it can not. While a creation is in flight, the delay before the next call of this method.
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

/** Delay before the next call of `unsettledMs` while a creation is in flight. */
const askAgainMs = 200;
