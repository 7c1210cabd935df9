import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '@conversation-operator/kube/clock';
import type { ConversationStatus } from '../../resources/conversation.ts';

const softWriteMs = 30_000;

/** Whether only soft fields differ. False where nothing does. */
export function differsSoftly(next: ConversationStatus, stored: ConversationStatus | undefined): boolean {
  if (stored === undefined || isDeepStrictEqual(next, stored)) return false;
  return isDeepStrictEqual(withoutSoft(next), withoutSoft(stored));
}

/**
 * What changes all the time while an agent works, and nobody waits for: it is written with the next change of anything else, so
 * also at the end of a run, and by itself only so often.
 */
const withoutSoft = ({ metrics: _metrics, lastActivityTime: _time, ...hard }: ConversationStatus): ConversationStatus => hard;

/** Remembers, in this process alone, when what is soft may be written by itself. */
export class SoftWrites {
  readonly #clock: Clock;
  /** By conversation: when, as long as something is withheld. */
  readonly #dueAt = new Map<string, number>();

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Whether to leave it unwritten for now. What differs has to be what is written now, or withheld. */
  withheld(key: string, next: ConversationStatus, stored: ConversationStatus | undefined): boolean {
    const now = this.#clock.monotonic();
    if (differsSoftly(next, stored)) {
      const dueAt = this.#dueAt.get(key) ?? now + softWriteMs;
      this.#dueAt.set(key, dueAt);
      if (dueAt > now) return true;
    }
    this.#dueAt.delete(key);
    return false;
  }

  /** Milliseconds until what is withheld may be written; Infinity: nothing is. */
  waitMs(key: string): number {
    return Math.max(0, (this.#dueAt.get(key) ?? Infinity) - this.#clock.monotonic());
  }

  forget(key: string): void {
    this.#dueAt.delete(key);
  }
}
