import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { CloseCode, type Tunnel } from '@conversation-operator/http/proxy/tunnel';
import { upgrade, readHandshake } from '@conversation-operator/http/proxy/upgrade';
import { type ProblemError } from '../errors/problem-error.ts';
import { unavailable } from '../errors/common-problems.ts';
import { requestIdOf, refuseConnection } from '../http/send-bytes.ts';
import type { ProxyAddress } from './addressing.ts';
import type { AgentAccess } from './agent-access.ts';
import { agentProblem, unauthorized } from './upstreams.ts';
import { forwardingOf, httpRoute } from './proxy-http.ts';
import { keysOfHandshake, refuseUnsafe, withAgentKey } from './request-keys.ts';
import { z } from 'zod';

const authMessage = z.looseObject({ type: z.literal('auth'), session_api_key: z.string() });

/**
 * Reads `{"type":"auth","session_api_key":"…"}`, the first message of a WebSocket without a key in
 * its handshake. Returns the key, and the message with the agent's key instead. Undefined for any
 * other message.
 */
function withKeyReplaced(
  message: string,
  agentKey: string,
): { readonly key: string; readonly message: string } | undefined {
  let json: unknown;
  try {
    json = JSON.parse(message);
  } catch {
    return undefined;
  }
  const { data } = authMessage.safeParse(json);
  if (data === undefined) return undefined;
  return {
    key: data.session_api_key,
    message: JSON.stringify({ ...data, session_api_key: agentKey }),
  };
}

/** Value of the metrics label `route` for all WebSockets. */
const webSocketRoute = `${httpRoute} (WebSocket)`;

interface Handshake {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  /** Bytes that the client has sent after the handshake. */
  readonly head: Buffer;
  readonly address: ProxyAddress;
}

/** Handles a WebSocket for an agent. Never rejects. */
export async function proxyWebSocket(
  access: AgentAccess,
  { request, socket, head, address }: Handshake,
): Promise<void> {
  const { upstreams, handshakes, options } = access;
  const { clock, connections, limits, metrics, slowReaders } = options;
  const requestId = requestIdOf(request);
  const client = access.clientAddress(request);
  const count = (status: number) =>
    metrics.httpRequests.inc({ method: 'GET', route: webSocketRoute, status: String(status) });
  const refuse = (problem: ProblemError) => {
    count(problem.status);
    refuseConnection(socket, problem, requestId);
  };
  socket.on('error', () => socket.destroy());
  handshakes.add(socket);
  socket.once('close', () => handshakes.delete(socket));
  try {
    if (upstreams.isDraining) throw unavailable();
    refuseUnsafe(request, address.path);
    const handshake = readHandshake(request);
    const keys = keysOfHandshake(request, address.path);
    // Without a key in its handshake, a WebSocket must send a key in its first message.
    const hasKey = keys.length > 0;
    const agent = await access.upstreamFor(address, { keys, isOpenToAll: !hasKey });
    if (socket.destroyed) return;
    let opened: Tunnel | undefined;
    const ended = () =>
      opened === undefined ? socket.destroy() : opened.close(CloseCode.authenticationFailed);
    const register = (shown: readonly string[]): boolean => {
      const over = access.register(address, shown, ended);
      if (over !== undefined) socket.once('close', over);
      return over !== undefined;
    };
    if (hasKey && !register(keys)) throw unauthorized();
    if (hasKey) connections.attribute(request.socket, { owner: agent.owner });
    let release = upstreams.begin(agent, { isKeyless: !hasKey });
    const { headers } = forwardingOf(access, request, { address, agent, requestId, hasKey });
    const authenticate = (message: string): string | CloseCode => {
      const shown = withKeyReplaced(message, agent.sessionKey);
      if (shown === undefined || !register([shown.key])) {
        access.problemOf(unauthorized(), request);
        return CloseCode.authenticationFailed;
      }
      try {
        connections.attribute(request.socket, { owner: agent.owner });
        const keyed = upstreams.begin(agent, { isKeyless: false });
        release();
        release = keyed;
        return shown.message;
      } catch {
        return CloseCode.tryAgainLater;
      }
    };
    upgrade({
      socket,
      head,
      target: agent.upstream.target,
      path: withAgentKey(address.path, agent.sessionKey),
      headers,
      // The gateway has to read the first message, so no compression is negotiated.
      handshake: hasKey ? handshake : { ...handshake, extensions: undefined },
      authenticate: hasKey ? undefined : authenticate,
      requestId,
      limits,
      clock,
      onStatus: count,
      onFailure: (error) => refuse(agentProblem(error)),
      onOpen: (tunnel) => {
        opened = tunnel;
        handshakes.delete(socket);
        agent.upstream.tunnels.add(tunnel);
        metrics.proxyWebSockets.inc({});
        if (upstreams.isDraining) tunnel.close(CloseCode.serviceRestart);
        else if (agent.upstream.isRetired) tunnel.close(CloseCode.goingAway);
      },
      onStall: (side) => slowReaders.add(side, agent.owner, () => side.destroy()),
      onClose: () => {
        release();
        if (opened === undefined) return;
        agent.upstream.tunnels.delete(opened);
        metrics.proxyWebSockets.dec({});
      },
    });
  } catch (error) {
    const problem = access.problemOf(error, request);
    access.logProblem(problem, address, { requestId, client });
    refuse(problem);
  }
}
