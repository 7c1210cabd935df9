import { StoreError } from './store-error.ts';

/** The calls of a store that have not ended. */
export interface RunningCalls {
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
