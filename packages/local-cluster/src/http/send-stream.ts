import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

/**
 * Sends a stream piece by piece, at the pace at which it is read. A reader that takes nothing for `stalledMs` is cut: what it
 * has not read would have to be kept for it.
 */
export async function sendStream(
  response: ServerResponse,
  stream: AsyncIterable<string | Uint8Array>,
  { signal, stalledMs }: { readonly signal: AbortSignal; readonly stalledMs: number },
): Promise<void> {
  const iterator = stream[Symbol.asyncIterator]();
  const stop = () => void iterator.return?.().catch(() => undefined);
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop, { once: true });
  response.flushHeaders();
  try {
    for (let next = await iterator.next(); next.done !== true && !response.destroyed; next = await iterator.next()) {
      if (!response.write(next.value)) await once(response, 'drain', { signal: AbortSignal.any([signal, AbortSignal.timeout(stalledMs)]) });
    }
    response.end();
  } catch (error) {
    // Aborted while it waited for the reader: nobody is there to be told.
    response.destroy();
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}
