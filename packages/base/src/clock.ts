export interface Timer {
  /** A second call, and a call after the timer has fired, have no effect. */
  cancel(): void;
}

/** Time and timers. Tests replace them, so that hours pass in milliseconds, in a fixed order. */
export interface Clock {
  /** Wall-clock time in milliseconds since 1970. The time may jump, so intervals do not use it. */
  now(): number;
  /** Milliseconds since an arbitrary start, for intervals and deadlines. They never decrease. */
  monotonic(): number;
  /** Calls back once, after `delayMs` or later, in a later turn of the event loop. */
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

/** Resolves after `delayMs`, or rejects with the reason of the signal when aborted first. */
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

/** Calls back `intervalMs` after the start and after each call, until the timer is cancelled. */
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

/** Returns the time as custom resources store it: in RFC 3339, in UTC, with milliseconds. */
export const isoTime = (clock: Clock): string => new Date(clock.now()).toISOString();

interface IdleTimerOptions {
  readonly clock: Clock;
  readonly idleMs: number;
  readonly onIdle: () => void;
}

/** Calls `onIdle` once, `idleMs` after the last `touch`. `touch` is cheap: it sets no timer. */
export class IdleTimer {
  readonly #options: IdleTimerOptions;
  #lastMs: number;
  #timer: Timer | undefined;

  constructor(options: IdleTimerOptions) {
    this.#options = options;
    this.#lastMs = options.clock.monotonic();
    this.#set(options.idleMs);
  }

  touch(): void {
    this.#lastMs = this.#options.clock.monotonic();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #set(delayMs: number): void {
    const { clock, idleMs, onIdle } = this.#options;
    this.#timer = clock.after(delayMs, () => {
      const leftMs = this.#lastMs + idleMs - clock.monotonic();
      if (leftMs > 0) this.#set(leftMs);
      else onIdle();
    });
  }
}
