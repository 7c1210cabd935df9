import type { Clock } from '@conversation-operator/base/clock';

/**
 * Delay between two reads of an agent's log, in milliseconds: what an agent writes is archived
 * within 30 s.
 */
export const extendIntervalMs = 28_000;
/** The same at the end of a run, after which a sandbox may be deleted. */
export const endIntervalMs = 5_000;

interface Entry {
  /** Monotonic time at which the last read began; absent: this process has not read the log. */
  readonly readAt?: number;
  /** The last report of the agent before that read. */
  readonly read?: string;
  /** The last report of the agent. */
  readonly reported?: string;
  readonly isRunning?: boolean;
  /** Whether a run has ended since the last read. */
  readonly hasEnded?: boolean;
  /** Whether the first read of an archive that begins was put off. */
  readonly isNew?: boolean;
}

/**
 * Decides when the log of an agent is read again. In memory only: a new process reads each log
 * once.
 */
export class ArchiveSchedule {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** By the UID of the conversation. */
  readonly #entries = new Map<string, Entry>();

  constructor({ clock }: { readonly clock: Pick<Clock, 'monotonic'> }) {
    this.#clock = clock;
  }

  /**
   * Records a report of the agent about a conversation: a text that differs when the log may have
   * grown. Returns the milliseconds until a read that this report makes due; undefined: none.
   */
  observe(uid: string, report: string, isRunning: boolean): number | undefined {
    const entry = this.#entries.get(uid);
    if (entry?.reported === report) return undefined;
    const hasEnded = entry?.hasEnded === true || (entry?.isRunning === true && !isRunning);
    this.#entries.set(uid, { ...entry, reported: report, isRunning, hasEnded });
    return this.waitMs(uid);
  }

  /**
   * Puts off the first read of an archive that begins, once: right after a start the agent has
   * hardly an event, and the status would be written for it alone.
   */
  expect(uid: string): void {
    const entry = this.#entries.get(uid);
    if (entry?.isNew === true || entry?.readAt !== undefined) return;
    this.#entries.set(uid, { ...entry, isNew: true, readAt: this.#clock.monotonic() });
  }

  /** Milliseconds until the next read may begin. */
  waitMs(uid: string): number {
    const { readAt = -Infinity, hasEnded } = this.#entries.get(uid) ?? {};
    const intervalMs = hasEnded === true ? endIntervalMs : extendIntervalMs;
    return Math.max(0, readAt + intervalMs - this.#clock.monotonic());
  }

  /** Records that a read begins. */
  begin(uid: string): void {
    const { reported, isRunning = false, isNew = false } = this.#entries.get(uid) ?? {};
    this.#entries.set(uid, {
      ...{ readAt: this.#clock.monotonic(), isRunning, isNew },
      ...(reported === undefined ? {} : { reported, read: reported }),
    });
  }

  /** Makes the next read due at once: the last one has failed, or has left something. */
  retry(uid: string): void {
    const { readAt: _readAt, ...entry } = this.#entries.get(uid) ?? {};
    this.#entries.set(uid, entry);
  }

  /** Whether the agent has reported something new since the last read began. */
  isBehind(uid: string): boolean {
    const { read, reported } = this.#entries.get(uid) ?? {};
    return reported !== read;
  }

  forget(uid: string): void {
    this.#entries.delete(uid);
  }
}
