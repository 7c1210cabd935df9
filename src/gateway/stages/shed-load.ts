import type { IncomingMessage } from 'node:http';
import { requestIdOf } from '../http/request-id.ts';
import { sendProblem } from '../http/send-problem.ts';
import type { Services } from '../services.ts';
import type { Stage } from './stage.ts';

/** Preflights, pages and health checks are never shed. */
const needsKey = ({ method, url }: IncomingMessage): boolean =>
  method !== 'OPTIONS' && url?.startsWith('/api/') === true;

/** Refuses a request of an overloaded gateway before anything else is spent on the request. */
export const shedLoad =
  ({ loadShedder, allowOrigins }: Services): Stage =>
  (request, response) => {
    const overload = needsKey(request)
      ? loadShedder.refusal(request.method === 'GET' ? 'reads' : 'writes')
      : undefined;
    if (overload === undefined) return false;
    // The parser has read a small body before the next microtask, so that the connection can be
    // kept.
    queueMicrotask(() => {
      if (!allowOrigins(request, response)) sendProblem(response, overload, requestIdOf(request));
    });
    return true;
  };
