import type { Clock } from '@conversation-operator/base/clock';
import { StoreError } from './object-store.ts';

/** Maximum chunks of a body, plus one per `minChunkBytes`. Each chunk takes some KiB of memory. */
const maxSmallChunks = 1000;
const minChunkBytes = 256;

/**
 * Reads the body of an untrusted server. Returns undefined if the body is too large or comes in
 * very small chunks. Leaving the loop early destroys the body and the connection.
 */
export async function readBounded(
  body: AsyncIterable<Buffer>,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    chunks.push(chunk);
    if (bytes > maxBytes || chunks.length > maxSmallChunks + bytes / minChunkBytes)
      return undefined;
  }
  return chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, bytes);
}

export interface CallDeadline {
  readonly clock: Pick<Clock, 'after'>;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Subject of the timeout message, for example `The store`. */
  readonly subject: string;
}

/**
 * Returns the result of `work`, or rejects after `timeoutMs` with a `timeout` error, or with the
 * reason of the caller's signal. A rejection aborts the signal of `work`. Work that ignores its
 * signal, such as a system call on a file, continues.
 */
export async function withDeadline<T>(
  { clock, timeoutMs, signal, subject }: CallDeadline,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const end = (reason: unknown) => {
    controller.abort(reason);
    reject(reason);
  };
  const onAbort = () => end(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  const timer = clock.after(timeoutMs, () =>
    end(new StoreError('timeout', `${subject} has not answered within ${timeoutMs} ms`)),
  );
  try {
    return await Promise.race([work(controller.signal), ended]);
  } finally {
    timer.cancel();
    signal?.removeEventListener('abort', onAbort);
  }
}

interface RunningCalls {
  /** Rejects with an `unavailable` error once the store is closed. */
  run<T>(call: () => Promise<T>): Promise<T>;
  /** Refuses later calls, and resolves when the running ones have ended. */
  close(): Promise<void>;
}

export function runningCalls(): RunningCalls {
  const running = new Set<Promise<unknown>>();
  let isClosed = false;
  return {
    async run(call) {
      if (isClosed) throw new StoreError('unavailable', 'The store is closed');
      const promise = call();
      running.add(promise);
      try {
        return await promise;
      } finally {
        running.delete(promise);
      }
    },
    async close() {
      isClosed = true;
      await Promise.allSettled(running);
    },
  };
}

/**
 * Calls `call` for each item, at most `limit` at a time. After the first failure, starts no further
 * call, and rejects with that failure when the running calls have ended.
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

export function* inBatches<T>(items: readonly T[], size: number): Generator<readonly T[]> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size);
}
