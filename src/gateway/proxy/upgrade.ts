import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '@conversation-operator/kube/clock';
import { agentTimeout, agentUnreachable } from './agent-errors.ts';
import { refuseConnection, refuseWithStatus } from '../http/send-problem.ts';
import { handshakeHeaders, switchingProtocols, type Handshake } from './websocket-handshake.ts';
import type { ProxyLimits } from './limits.ts';
import { Tunnel, type TunnelOptions } from './tunnel.ts';
import type { Upstream } from './upstream.ts';

const answerMs = 10_000;
/** Maximum informational answers: an agent that sends more wants to keep the gateway busy. */
const maxInformational = 64;
const tcpKeepAliveMs = 30_000;
/** A connection for each WebSocket, which keeps it. */
const agent = new Agent({ keepAlive: false });

export interface UpgradeOptions {
  readonly socket: Duplex;
  readonly head: Buffer;
  readonly upstream: Upstream;
  readonly path: string;
  /** Headers for the agent except those of the handshake, as a list of names and values in turn. */
  readonly headers: readonly string[];
  readonly handshake: Handshake;
  readonly authenticate: TunnelOptions['authenticate'];
  readonly requestId: string;
  readonly limits: ProxyLimits;
  readonly clock: Clock;
  /** Called with each status once, 101 included; 0 when the client has gone before. */
  readonly onStatus: (status: number) => void;
  /** Called with the tunnel as soon as there is one. */
  readonly onOpen: (tunnel: Tunnel) => void;
  readonly onStall: (side: Duplex) => void;
  /** Called once, when both connections are closed. */
  readonly onClose: () => void;
}

/**
 * Repeats a client's WebSocket handshake to the agent, and joins both connections when the agent
 * agrees.
 */
export function upgrade(options: UpgradeOptions): void {
  const { socket, upstream, handshake, requestId, clock, limits } = options;
  const { host, port } = upstream.target;
  let isOver = false;
  const end = (status: number): boolean => {
    if (isOver) return false;
    isOver = true;
    timer.cancel();
    socket.off('close', onGone);
    options.onStatus(status);
    return true;
  };
  const outgoing = httpRequest({
    host,
    port,
    agent,
    method: 'GET',
    path: options.path,
    headers: [...options.headers, ...handshakeHeaders(handshake)],
  });
  const fail = (problem: ReturnType<typeof agentTimeout>) => {
    if (!end(problem.status)) return;
    outgoing.destroy();
    refuseConnection(socket, problem, requestId);
    options.onClose();
  };
  const onGone = () => {
    if (!end(0)) return;
    outgoing.destroy();
    options.onClose();
  };
  const timer = clock.after(limits.connectMs + answerMs, () => fail(agentTimeout()));
  socket.once('close', onGone).on('error', () => socket.destroy());
  outgoing.on('error', (error) => fail(agentUnreachable(error)));
  let informational = 0;
  outgoing.on('information', () => {
    informational += 1;
    if (informational > maxInformational) fail(agentUnreachable());
  });
  outgoing.once('response', (answer: IncomingMessage) => {
    const status = answer.statusCode ?? 0;
    answer.destroy();
    if (status < 400) {
      fail(agentUnreachable());
    } else if (end(status)) {
      refuseWithStatus(socket, status, requestId);
      options.onClose();
    }
  });
  outgoing.once('upgrade', (answer: IncomingMessage, agentSocket: Socket, agentHead: Buffer) => {
    const text = switchingProtocols(handshake, answer, requestId);
    if (text === undefined) {
      agentSocket.destroy();
      fail(agentUnreachable());
      return;
    }
    if (!end(101)) {
      agentSocket.destroy();
      return;
    }
    if (socket instanceof Socket)
      socket.setTimeout(0).setNoDelay(true).setKeepAlive(true, tcpKeepAliveMs);
    agentSocket.setTimeout(0).setNoDelay(true);
    socket.write(text);
    const { head: clientHead, authenticate, onClose, onOpen, onStall } = options;
    onOpen(
      new Tunnel({
        client: socket,
        agent: agentSocket,
        clientHead,
        agentHead,
        authenticate,
        limits,
        clock,
        onStall,
        onClose,
      }),
    );
  });
  outgoing.end();
}
