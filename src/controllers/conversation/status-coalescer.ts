import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '@conversation-operator/kube/clock';
import type { ConversationStatus } from '../../resources/conversation-status.ts';

/** Delay before a change of usage is written without another change. */
const coalesceMs = 30_000;

/** Whether usage differs, and nothing else. */
function differsInUsage(next: ConversationStatus, stored: ConversationStatus | undefined): boolean {
  if (stored === undefined || isDeepStrictEqual(next, stored)) return false;
  return isDeepStrictEqual(withoutUsage(next), withoutUsage(stored));
}

/** Usage changes all the time while an agent works, and no client waits for a change of usage. */
const withoutUsage = ({
  metrics: _metrics,
  lastActivityTime: _time,
  ...others
}: ConversationStatus): ConversationStatus => others;

/**
 * Withholds writes of usage until another field changes, for example at the end of a run, or until
 * the delay is over. The deadlines are in memory only; a new process withholds anew.
 */
export class StatusCoalescer {
  readonly #clock: Clock;
  /** Deadlines of withheld writes, by conversation. */
  readonly #dueAt = new Map<string, number>();

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Whether to withhold the write for now. A caller that receives false has to write. */
  withheld(key: string, next: ConversationStatus, stored: ConversationStatus | undefined): boolean {
    const now = this.#clock.monotonic();
    if (differsInUsage(next, stored)) {
      const dueAt = this.#dueAt.get(key) ?? now + coalesceMs;
      this.#dueAt.set(key, dueAt);
      if (dueAt > now) return true;
    }
    this.#dueAt.delete(key);
    return false;
  }

  /** Milliseconds until the withheld write is due; Infinity when no write is withheld. */
  waitMs(key: string): number {
    return Math.max(0, (this.#dueAt.get(key) ?? Infinity) - this.#clock.monotonic());
  }

  forget(key: string): void {
    this.#dueAt.delete(key);
  }
}
