import type { Clock } from '@conversation-operator/base/clock';

/**
 * A signal that is aborted together with the given one, or after `delayMs` of the clock. The caller
 * calls `cancel` once the signal is not needed any more. `abort` aborts the signal at once.
 */
export function abortedAfter(
  clock: Clock,
  delayMs: number,
  signal: AbortSignal,
): { readonly signal: AbortSignal; readonly cancel: () => void; readonly abort: () => void } {
  const controller = new AbortController();
  const abort = () => controller.abort(new Error(`no answer within ${delayMs} ms`));
  const timer = clock.after(delayMs, abort);
  const passOn = () => controller.abort(signal.reason);
  signal.addEventListener('abort', passOn, { once: true });
  if (signal.aborted) passOn();
  return {
    signal: controller.signal,
    abort,
    cancel: () => {
      timer.cancel();
      signal.removeEventListener('abort', passOn);
    },
  };
}
