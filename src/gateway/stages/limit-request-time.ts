import { lateRequest } from '@conversation-operator/http/server/client-timeouts';
import { requestIdOf } from '../http/request-id.ts';
import { refuseConnection } from '../http/send-problem.ts';
import type { Services } from '../services.ts';
import type { Stage } from './stage.ts';

/**
 * Closes the connection of a client that takes too long to send its request. An upload to an agent
 * has a limit of its own.
 */
export const limitRequestTime =
  ({ clock, timeouts: { requestMs } }: Services): Stage =>
  (request, response) => {
    if (
      request.headers['content-length'] === undefined &&
      request.headers['transfer-encoding'] === undefined
    )
      return false;
    const timer = clock.after(requestMs, () => {
      if (request.complete) return;
      if (response.headersSent) request.socket.destroy();
      else refuseConnection(request.socket, lateRequest(), requestIdOf(request));
    });
    request.once('end', () => timer.cancel());
    response.once('close', () => timer.cancel());
    return false;
  };
