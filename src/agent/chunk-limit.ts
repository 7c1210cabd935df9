import type { Dispatcher } from 'undici';
import { AgentError } from './errors.ts';

/**
 * Maximum chunks of any size, because each chunk costs as much as some KiB. Chunks beyond them
 * average `minChunkBytes` at least.
 */
const maxSmallChunks = 1_000;
const minChunkBytes = 256;

/**
 * Aborts an answer in very small chunks before the client joins them: a mebibyte in chunks of one
 * byte blocks the event loop, and thereby all other requests, for seconds.
 */
class ChunkLimit implements Dispatcher.DispatchHandler {
  readonly #next: Dispatcher.DispatchHandler;
  #chunks = 0;
  #bytes = 0;

  constructor(next: Dispatcher.DispatchHandler) {
    this.#next = next;
  }

  onRequestStart(
    ...event: Parameters<NonNullable<Dispatcher.DispatchHandler['onRequestStart']>>
  ): void {
    this.#next.onRequestStart?.(...event);
  }

  onRequestUpgrade(
    ...event: Parameters<NonNullable<Dispatcher.DispatchHandler['onRequestUpgrade']>>
  ): void {
    this.#next.onRequestUpgrade?.(...event);
  }

  onResponseStart(
    ...event: Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>
  ): void {
    this.#next.onResponseStart?.(...event);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks++;
    this.#bytes += chunk.length;
    if (this.#chunks > maxSmallChunks + this.#bytes / minChunkBytes)
      controller.abort(new AgentError('malformed', "The agent's answer came in too many pieces."));
    else this.#next.onResponseData?.(controller, chunk);
  }

  onResponseEnd(
    ...event: Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseEnd']>>
  ): void {
    this.#next.onResponseEnd?.(...event);
  }

  onResponseError(
    ...event: Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseError']>>
  ): void {
    this.#next.onResponseError?.(...event);
  }
}

export const limitChunks: Dispatcher.DispatcherComposeInterceptor =
  (dispatch) => (options, handler) =>
    dispatch(options, new ChunkLimit(handler));
