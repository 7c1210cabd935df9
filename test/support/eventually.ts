/** Pauses between two calls, in milliseconds. */
const [minPauseMs, maxPauseMs] = [50, 500];

/**
 * Calls until `check` returns something other than undefined or false; throws what `check` threw
 * last, or a time-out. A check may be a program that takes a tenth of a second of CPU time, so the
 * calls become rarer: what they notice, they notice at most a tenth later, or half a second.
 */
export async function eventually<T>(
  what: string,
  check: () => Promise<T | undefined | false> | T | undefined | false,
  timeoutMs = 90_000,
): Promise<T> {
  const begun = performance.now();
  let last: unknown;
  for (;;) {
    try {
      const value = await check();
      if (value !== undefined && value !== false) return value;
      last = undefined;
    } catch (error) {
      last = error;
    }
    const elapsedMs = performance.now() - begun;
    if (elapsedMs > timeoutMs)
      throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause: last });
    const pauseMs = Math.min(Math.max(elapsedMs / 10, minPauseMs), maxPauseMs);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
