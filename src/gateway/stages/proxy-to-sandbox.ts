import { proxyHttp } from '../proxy/proxy-http.ts';
import { proxyWebSocket } from '../proxy/proxy-websocket.ts';
import type { Services } from '../services.ts';
import type { Stage, UpgradeStage } from './stage.ts';

/** Passes a request for a sandbox's agent on to it, and answers its preflights. */
export const proxyToSandbox =
  ({ agents, allowOriginsOfSandboxes: allowOrigins }: Services): Stage =>
  (request, response) => {
    const address = agents.find(request);
    if (address === undefined) return false;
    if (!allowOrigins(request, response)) void proxyHttp(agents, request, response, address);
    return true;
  };

/** Joins a WebSocket with the agent of the sandbox that it is for. */
export const joinWithSandbox =
  ({ agents }: Services): UpgradeStage =>
  (request, socket, head) => {
    const address = agents.find(request);
    if (address === undefined) socket.destroy();
    else void proxyWebSocket(agents, request, socket, head, address);
    return true;
  };
