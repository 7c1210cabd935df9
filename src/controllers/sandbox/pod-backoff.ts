import { backoffDelayMs } from '@conversation-operator/base/backoff';
import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';

interface Ended {
  readonly podUid: string;
  /** Pods in a row that ended soon after they were made. */
  readonly failures: number;
  /** Time by the monotonic clock from which the next pod may be made. */
  readonly readyAt: number;
}

/**
 * Minimum life of a pod after which the pods before it are forgotten, as a kubelet forgets crashes.
 */
export const healthyMs = 10 * 60_000;
const backoff = { baseMs: 5_000, capMs: 5 * 60_000 };
const maxRemembered = 20_000;

/**
 * PodBackoff delays the next pod of a sandbox after one that has ended. A node under pressure or in
 * its shutdown refuses pods at once, and a client that answers ERROR with a resume asks for a crash
 * loop again and again: each costs the cluster a pod, so the delay doubles. The record is that of
 * this process alone: the next leader begins with the first delay.
 */
export class PodBackoff {
  readonly #clock: Clock;
  readonly #ended = recentlyUsed<Ended>(maxRemembered);

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Records that a pod has ended after `livedMs`. Each pod counts once. */
  ended(sandboxUid: string, podUid: string, livedMs: number): void {
    const known = this.#ended.get(sandboxUid);
    if (known?.podUid === podUid) return;
    const now = this.#clock.monotonic();
    const forgotten = known === undefined || now - known.readyAt >= healthyMs;
    const failures = livedMs >= healthyMs ? 0 : (forgotten ? 0 : known.failures) + 1;
    const delayMs = failures === 0 ? 0 : backoffDelayMs(backoff, failures, () => 0);
    this.#ended.set(sandboxUid, { podUid, failures, readyAt: now + delayMs });
  }

  /** Whole milliseconds until the sandbox may have another pod; 0 when it may have one now. */
  waitMs(sandboxUid: string): number {
    return Math.ceil(
      Math.max(0, (this.#ended.get(sandboxUid)?.readyAt ?? 0) - this.#clock.monotonic()),
    );
  }
}
