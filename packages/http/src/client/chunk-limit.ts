import type { Dispatcher } from 'undici';
import { CallError } from './call-error.ts';

/**
 * Maximum chunks of any size, because each chunk costs as much as some KiB. Chunks beyond them
 * average `minChunkBytes` at least.
 */
const maxSmallChunks = 1_000;
const minChunkBytes = 256;

/**
 * Aborts a response in very small chunks before the client joins them: a mebibyte in chunks of one
 * byte blocks the event loop, and thereby all other requests, for seconds.
 */
export const limitChunks: Dispatcher.DispatcherComposeInterceptor =
  (dispatch) => (options, handler) => {
    let chunks = 0;
    let bytes = 0;
    return dispatch(options, {
      onRequestStart: (...event) => handler.onRequestStart?.(...event),
      onRequestUpgrade: (...event) => handler.onRequestUpgrade?.(...event),
      onResponseStart: (...event) => handler.onResponseStart?.(...event),
      onResponseData: (controller, chunk) => {
        chunks += 1;
        bytes += chunk.length;
        if (chunks > maxSmallChunks + bytes / minChunkBytes)
          controller.abort(new CallError('too-fragmented'));
        else handler.onResponseData?.(controller, chunk);
      },
      onResponseEnd: (...event) => handler.onResponseEnd?.(...event),
      onResponseError: (...event) => handler.onResponseError?.(...event),
    });
  };
