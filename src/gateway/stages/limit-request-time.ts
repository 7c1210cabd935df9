import { arriveInTime } from '@conversation-operator/http/server/client-timeouts';
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
    arriveInTime(request, response, {
      clock,
      requestMs,
      refuse: (refusal) => refuseConnection(request.socket, refusal, requestIdOf(request)),
    });
    return false;
  };
