/**
 * Calls for each item, at most `limit` at once. Begins no further call after the first failure, and
 * rejects with that one when the calls that have begun are over.
 */
export async function inParallel<T, R>(
  items: readonly T[],
  limit: number,
  call: (item: T) => Promise<R>,
): Promise<R[]> {
  const results = new Array<R>(items.length);
  const queue = items.entries();
  let failure: { readonly error: unknown } | undefined;
  const lane = async () => {
    for (const [index, item] of queue) {
      try {
        results[index] = await call(item);
      } catch (error) {
        failure ??= { error };
      }
      if (failure !== undefined) return;
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, lane));
  if (failure !== undefined) throw failure.error;
  return results;
}

/** The items in groups of at most `size`. */
export function* inBatches<T>(items: readonly T[], size: number): Generator<readonly T[]> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size);
}
