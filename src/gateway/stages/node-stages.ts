import type { AgentAccess } from '../proxy/agent-access.ts';
import type { LastResponses } from '@conversation-operator/http/server/listen';
import type { cors } from '@conversation-operator/http/server/cors';
import type { LoadShedder } from '@conversation-operator/http/limits/load-shedder';
import type { Connections } from '@conversation-operator/http/limits/connections';
import type { Clock } from '@conversation-operator/base/clock';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { arriveInTime } from '@conversation-operator/http/server/http-server';
import { requestIdOf, refuseConnection, sendProblem } from '../http/send-bytes.ts';
import { proxyHttp } from '../proxy/proxy-http.ts';
import { proxyWebSocket } from '../proxy/proxy-websocket.ts';
import type { Duplex } from 'node:stream';

/**
 * A stage of every request. If it returns true, it has handled the request and is the last stage.
 */
export type Stage = (request: IncomingMessage, response: ServerResponse) => boolean;

/** A stage of every WebSocket handshake, which returns true if it handles the handshake. */
export type UpgradeStage = (request: IncomingMessage, socket: Duplex, head: Buffer) => boolean;

export const announceShutdown =
  ({ lastResponses }: { readonly lastResponses: LastResponses }): Stage =>
  (_request, response) => {
    lastResponses.add(response);
    return false;
  };

/** Rejects a request through a trusted proxy if its client has too many requests in progress. */
export const limitAddress =
  ({ connections }: { readonly connections: Connections }): Stage =>
  (request, response) => {
    const refusal = connections.refusal(request, response);
    if (refusal !== undefined) sendProblem(response, refusal, requestIdOf(request));
    return refusal !== undefined;
  };

/** Rejects a WebSocket handshake above the same limit as in `limitAddress`. */
export const limitAddressOfUpgrade =
  ({ connections }: { readonly connections: Connections }): UpgradeStage =>
  (request, socket) => {
    const refusal = connections.refusal(request, socket);
    if (refusal !== undefined) refuseConnection(socket, refusal, requestIdOf(request));
    return refusal !== undefined;
  };

/** Forwards a request for an agent, and answers preflight requests for agents. */
export const proxyToSandbox =
  ({
    agents,
    allowOriginsOfSandboxes: allowOrigins,
  }: {
    readonly agents: AgentAccess;
    readonly allowOriginsOfSandboxes: ReturnType<typeof cors>;
  }): Stage =>
  (request, response) => {
    const address = agents.addressing.find(request);
    if (address === undefined) return false;
    if (!allowOrigins(request, response)) void proxyHttp(agents, { request, response, address });
    return true;
  };

export const joinWithSandbox =
  ({ agents }: { readonly agents: AgentAccess }): UpgradeStage =>
  (request, socket, head) => {
    const address = agents.addressing.find(request);
    if (address === undefined) socket.destroy();
    else void proxyWebSocket(agents, { request, socket, head, address });
    return true;
  };

/** Whether a request may be shed. Preflights, pages and health checks are never shed. */
const needsKey = ({ method, url }: IncomingMessage): boolean =>
  method !== 'OPTIONS' && url?.startsWith('/api/') === true;

/** Rejects a request to an overloaded gateway before any other work. */
export const shedLoad =
  ({
    loadShedder,
    allowOrigins,
  }: {
    readonly loadShedder: LoadShedder;
    readonly allowOrigins: ReturnType<typeof cors>;
  }): Stage =>
  (request, response) => {
    const overload = needsKey(request)
      ? loadShedder.refusal(request.method === 'GET' ? 'reads' : 'writes')
      : undefined;
    if (overload === undefined) return false;
    // The HTTP parser reads a small body before this microtask, so the connection can stay open.
    queueMicrotask(() => {
      if (!allowOrigins(request, response)) sendProblem(response, overload, requestIdOf(request));
    });
    return true;
  };

/** Rejects a request that arrives too slowly. Requests to agents have a separate limit. */
export const limitRequestTime =
  ({
    clock,
    timeouts: { requestMs },
  }: {
    readonly clock: Clock;
    readonly timeouts: { readonly requestMs: number };
  }): Stage =>
  (request, response) => {
    arriveInTime(request, response, {
      clock,
      requestMs,
      refuse: (refusal) => refuseConnection(request.socket, refusal, requestIdOf(request)),
    });
    return false;
  };
