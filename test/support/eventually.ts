/**
 * Calls until `check` returns something other than undefined or false; throws what `check` threw
 * last, or a time-out.
 */
export async function eventually<T>(
  what: string,
  check: () => Promise<T | undefined | false> | T | undefined | false,
  timeoutMs = 90_000,
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  let last: unknown;
  for (;;) {
    try {
      const value = await check();
      if (value !== undefined && value !== false) return value;
      last = undefined;
    } catch (error) {
      last = error;
    }
    if (performance.now() > deadline)
      throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause: last });
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
