import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

/**
 * Sends a stream chunk by chunk, as fast as the client reads. The connection of a client that reads
 * nothing for `stalledMs` is closed, because the server would otherwise have to buffer the unread
 * data.
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
    for (
      let next = await iterator.next();
      next.done !== true && !response.destroyed;
      next = await iterator.next()
    ) {
      if (!response.write(next.value))
        await once(response, 'drain', {
          signal: AbortSignal.any([signal, AbortSignal.timeout(stalledMs)]),
        });
    }
    response.end();
  } catch (error) {
    // The wait for the client was aborted, and the connection can carry no error message.
    response.destroy();
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}
