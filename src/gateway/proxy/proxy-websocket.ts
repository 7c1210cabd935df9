import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { unavailable } from '../errors/problem-error.ts';
import { requestIdOf } from '../http/request-id.ts';
import { refuseConnection } from '../http/send-problem.ts';
import type { ProxyAddress } from './address.ts';
import type { AgentAccess } from './agent-access.ts';
import { unauthorized } from './agent-errors.ts';
import { withKeyReplaced } from './auth-message.ts';
import { CloseCode } from './frames.ts';
import { requestFacts, requestHeaders } from './headers.ts';
import { httpRoute } from './proxy-http.ts';
import { keysOfHandshake, refuseUnsafe, withAgentKey } from './request-keys.ts';
import type { Tunnel } from './tunnel.ts';
import { upgrade } from './upgrade.ts';
import { readHandshake } from './websocket-handshake.ts';

/** Label of all WebSockets in metrics. */
const webSocketRoute = `${httpRoute} (WebSocket)`;

/** The stages of a WebSocket for an agent. Never rejects. */
export async function proxyWebSocket(
  access: AgentAccess,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  address: ProxyAddress,
): Promise<void> {
  const { upstreams, handshakes, limits, options } = access;
  const { clock, ownerConnections, metrics, slowReaders } = options;
  const requestId = requestIdOf(request);
  const count = (status: number) =>
    metrics.httpRequests.inc({ method: 'GET', route: webSocketRoute, status });
  socket.on('error', () => socket.destroy());
  handshakes.add(socket);
  socket.once('close', () => handshakes.delete(socket));
  try {
    if (upstreams.isDraining) throw unavailable();
    refuseUnsafe(request, address.path);
    const handshake = readHandshake(request);
    const keys = keysOfHandshake(request, address.path);
    // Without a key in its handshake, a WebSocket has to show one in its first message.
    const hasKey = keys.length > 0;
    const upstream = await access.upstreamFor(address, keys, !hasKey);
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
    if (hasKey) ownerConnections.attribute(request.socket, upstream.owner);
    let release = upstreams.begin(upstream, { isKeyless: !hasKey });
    const facts = requestFacts(access, request, { address, upstream, requestId, hasKey });
    const authenticate = (message: string): string | CloseCode => {
      const shown = withKeyReplaced(message, upstream.sessionKey);
      if (shown === undefined || !register([shown.key])) {
        access.problemOf(unauthorized(), request);
        return CloseCode.authenticationFailed;
      }
      try {
        ownerConnections.attribute(request.socket, upstream.owner);
        const keyed = upstreams.begin(upstream, { isKeyless: false });
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
      upstream,
      path: withAgentKey(address.path, upstream.sessionKey),
      headers: requestHeaders(request.rawHeaders, facts),
      // The gateway reads the first message, which must not be compressed then.
      handshake: hasKey ? handshake : { ...handshake, extensions: undefined },
      authenticate: hasKey ? undefined : authenticate,
      requestId,
      limits,
      clock,
      onStatus: count,
      onOpen: (tunnel) => {
        opened = tunnel;
        handshakes.delete(socket);
        upstream.tunnels.add(tunnel);
        metrics.proxyWebSockets.inc();
        if (upstreams.isDraining) tunnel.close(CloseCode.serviceRestart);
        else if (upstream.isRetired) tunnel.close(CloseCode.goingAway);
      },
      onStall: (side) => slowReaders.add(side, upstream.owner, () => side.destroy()),
      onClose: () => {
        release();
        if (opened === undefined) return;
        upstream.tunnels.delete(opened);
        metrics.proxyWebSockets.dec();
      },
    });
  } catch (error) {
    const problem = access.problemOf(error, request);
    count(problem.status);
    access.logProblem(problem, address, requestId);
    refuseConnection(socket, problem, requestId);
  }
}
