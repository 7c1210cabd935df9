import { refuseConnection, sendProblem } from '../http/send-problem.ts';
import { requestIdOf } from '../http/request-id.ts';
import type { Services } from '../services.ts';
import type { Stage, UpgradeStage } from './stage.ts';

/** Refuses a request where too many of its client address are under way behind trusted proxies. */
export const limitAddress =
  ({ addressConnections }: Services): Stage =>
  (request, response) => {
    const refusal = addressConnections.refusal(request, response);
    if (refusal !== undefined) sendProblem(response, refusal, requestIdOf(request));
    return refusal !== undefined;
  };

/** Refuses a WebSocket under the same limit. */
export const limitAddressOfUpgrade =
  ({ addressConnections }: Services): UpgradeStage =>
  (request, socket) => {
    const refusal = addressConnections.refusal(request, socket);
    if (refusal !== undefined) refuseConnection(socket, refusal, requestIdOf(request));
    return refusal !== undefined;
  };
