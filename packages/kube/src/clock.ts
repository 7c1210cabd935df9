/** A timer that can be taken back. */
export interface Timer {
  /** Safe to call twice, and after it has fired. */
  cancel(): void;
}

/**
 * Time as the runtime sees it. Everything that waits takes one of these, so that the simulation can run hours in milliseconds
 * and in the same order every time.
 */
export interface Clock {
  /** Wall clock, milliseconds since 1970. May jump; only for what people and other machines read. */
  now(): number;
  /** Milliseconds since some start, never backwards. For every interval and deadline. */
  monotonic(): number;
  /** Calls back once, `delayMs` from now or later; at once means in a later turn, never inside this call. */
  after(delayMs: number, callback: () => void): Timer;
}

/** Beyond this, setTimeout fires at once. */
const maxTimeoutMs = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after: (delayMs, callback) => {
    const timer = setTimeout(callback, Math.min(Math.max(delayMs, 0), maxTimeoutMs));
    return { cancel: () => clearTimeout(timer) };
  },
};

/** Resolves after `delayMs`; rejects with the signal's reason when it is aborted first. */
export function sleep(clock: Pick<Clock, 'after'>, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason as Error);
      return;
    }
    const onAbort = () => {
      timer.cancel();
      reject(signal?.reason as Error);
    };
    const timer = clock.after(delayMs, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** RFC 3339 in UTC with milliseconds: what we write into the timestamps of our own kinds. */
export const isoTime = (clock: Clock): string => new Date(clock.now()).toISOString();
