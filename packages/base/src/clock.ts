/** A timer that can be cancelled. */
export interface Timer {
  /** A second call, and a call after the timer has fired, have no effect. */
  cancel(): void;
}

/**
 * Source of time for the runtime. Everything that waits takes a Clock, so that the simulation runs
 * hours in milliseconds, and in the same order every time.
 */
export interface Clock {
  /**
   * Wall clock in milliseconds since 1970. The wall clock may jump, so only people and other
   * machines read this value.
   */
  now(): number;
  /**
   * Milliseconds since an arbitrary start. The value never decreases; every interval and deadline
   * uses this clock.
   */
  monotonic(): number;
  /**
   * Calls back once, after `delayMs` or later, always in a later turn of the event loop and never
   * inside this call.
   */
  after(delayMs: number, callback: () => void): Timer;
}

/** Maximum delay of setTimeout; a longer delay would fire at once. */
const maxTimeoutMs = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after: (delayMs, callback) => {
    const timer = setTimeout(callback, Math.min(Math.max(delayMs, 0), maxTimeoutMs));
    return { cancel: () => clearTimeout(timer) };
  },
};

/**
 * Resolves after `delayMs`. Rejects with the reason of the signal when the signal is aborted first.
 */
export function sleep(
  clock: Pick<Clock, 'after'>,
  delayMs: number,
  signal?: AbortSignal,
): Promise<void> {
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

/**
 * Calls back over and over, each time `intervalMs` after the call before, until the timer is
 * cancelled.
 */
export function every(
  clock: Pick<Clock, 'after'>,
  intervalMs: number,
  callback: () => void,
): Timer {
  const next = (): Timer =>
    clock.after(intervalMs, () => {
      timer = next();
      callback();
    });
  let timer = next();
  return { cancel: () => timer.cancel() };
}

/**
 * Returns the current time in RFC 3339, in UTC with milliseconds, as the timestamps of this
 * project's kinds have it.
 */
export const isoTime = (clock: Clock): string => new Date(clock.now()).toISOString();
