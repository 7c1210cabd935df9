import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '@conversation-operator/kube/clock';
import { isStartOver, startStatusOf } from '../../resources/conversation.ts';
import type { ConversationStatus } from '../../resources/conversation-status.ts';

/** Delay before a change of usage is written without another change, in milliseconds. */
const usageMs = 30_000;
/** Delay before another reason of a sandbox that starts is written, in milliseconds. */
const reasonMs = 1_000;

/** Usage changes all the time while an agent works, and no client waits for a change of usage. */
const withoutUsage = ({
  metrics: _metrics,
  lastActivityTime: _time,
  ...others
}: ConversationStatus): ConversationStatus => others;

/** The reasons of an ordinary start follow each other within milliseconds. */
const withoutReason = ({
  sandboxStatusReason: _reason,
  ...others
}: ConversationStatus): ConversationStatus => others;

/** Milliseconds for which a write may wait for another one; 0 where it may not. */
function delayMs(next: ConversationStatus, stored: ConversationStatus | undefined): number {
  if (stored === undefined || isDeepStrictEqual(next, stored)) return 0;
  const [nextState, storedState] = [withoutUsage(next), withoutUsage(stored)];
  if (isDeepStrictEqual(nextState, storedState)) return usageMs;
  const isStarting =
    !isStartOver(startStatusOf({ status: next })) && next.sandboxStatus === 'STARTING';
  return isStarting && isDeepStrictEqual(withoutReason(nextState), withoutReason(storedState))
    ? reasonMs
    : 0;
}

/**
 * Withholds writes of usage, and of the reason of a sandbox that starts, until another field
 * changes, for example at the end of a run, or until the delay is over. The deadlines are in memory
 * only; a new process withholds anew.
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
    const delay = delayMs(next, stored);
    if (delay > 0) {
      const dueAt = Math.min(this.#dueAt.get(key) ?? Infinity, now + delay);
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
