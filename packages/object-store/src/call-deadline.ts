import type { Clock } from '@conversation-operator/base/clock';
import { StoreError } from './store-error.ts';

export interface CallDeadline {
  readonly clock: Pick<Clock, 'after'>;
  readonly timeoutMs: number;
  /** Signal of the caller. */
  readonly signal?: AbortSignal | undefined;
  /** Subject of the message when the time is over, for example `The store`. */
  readonly subject: string;
}

/**
 * Ends with the work, or rejects with a `timeout` error after `timeoutMs`, or with the reason of
 * the caller's signal, whichever comes first. The signal of the work is aborted then; work that can
 * not be interrupted, as a call of a file system, ends later by itself.
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
