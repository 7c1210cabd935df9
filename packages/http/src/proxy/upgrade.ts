import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { refuseConnection } from '../server/error-response.ts';
import { Tunnel, type TunnelOptions, type ForwardingLimits } from './tunnel.ts';
import { UpstreamError, type Target } from './upstream.ts';
import { handshakeHeaders, switchingProtocols, type Handshake } from './websocket-handshake.ts';

/** Maximum time of the upstream for its response to the handshake, once it is connected. */
const answerMs = 10_000;
/** Maximum informational answers: an upstream that sends more wants to keep the proxy busy. */
const maxInformational = 64;
const tcpKeepAliveMs = 30_000;
/** A connection for each WebSocket, which keeps it. */
const connector = new Agent({ keepAlive: false });

export interface UpgradeOptions extends Pick<
  TunnelOptions,
  'authenticate' | 'clock' | 'onStall' | 'onClose'
> {
  readonly socket: Duplex;
  readonly head: Buffer;
  readonly target: Target;
  readonly path: string;
  /**
   * Headers for the upstream except those of the handshake, as a list of names and values in turn.
   */
  readonly headers: readonly string[];
  readonly handshake: Handshake;
  readonly requestId: string;
  readonly limits: ForwardingLimits;
  /**
   * Called once with the status of the upstream, 101 included, or with 0 when the client has gone
   * before. Not called after `onFailure`.
   */
  readonly onStatus: (status: number) => void;
  /** Called where the upstream gives no usable response; the caller responds to the client. */
  readonly onFailure: (error: UpstreamError) => void;
  /** Called with the tunnel as soon as there is one. */
  readonly onOpen: (tunnel: Tunnel) => void;
}

/**
 * Repeats a client's WebSocket handshake to the upstream, and joins both connections when the
 * upstream agrees.
 */
export function upgrade(options: UpgradeOptions): void {
  const { socket, target, handshake, requestId, clock, limits } = options;
  let isOver = false;
  const end = (): boolean => {
    if (isOver) return false;
    isOver = true;
    timer.cancel();
    socket.off('close', onGone);
    return true;
  };
  const outgoing = httpRequest({
    host: target.host,
    port: target.port,
    agent: connector,
    method: 'GET',
    path: options.path,
    headers: [...options.headers, ...handshakeHeaders(handshake)],
  });
  const fail = (error: UpstreamError) => {
    if (!end()) return;
    outgoing.destroy();
    options.onFailure(error);
    options.onClose();
  };
  const unreachable = (cause?: unknown) => fail(new UpstreamError('unreachable', cause));
  const onGone = () => {
    if (!end()) return;
    outgoing.destroy();
    options.onStatus(0);
    options.onClose();
  };
  const timer = clock.after(limits.connectMs + answerMs, () => fail(new UpstreamError('timeout')));
  socket.once('close', onGone).on('error', () => socket.destroy());
  outgoing.on('error', unreachable);
  let informational = 0;
  outgoing.on('information', () => {
    informational += 1;
    if (informational > maxInformational) unreachable();
  });
  outgoing.once('response', (answer: IncomingMessage) => {
    const status = answer.statusCode ?? 0;
    answer.destroy();
    if (status < 400) {
      unreachable();
    } else if (end()) {
      options.onStatus(status);
      refuseConnection(socket, { status, headers: { 'x-request-id': requestId } });
      options.onClose();
    }
  });
  outgoing.once('upgrade', (answer: IncomingMessage, upstream: Socket, upstreamHead: Buffer) => {
    const text = switchingProtocols(handshake, answer, requestId);
    if (text === undefined) unreachable();
    if (text === undefined || !end()) {
      upstream.destroy();
      return;
    }
    options.onStatus(101);
    if (socket instanceof Socket)
      socket.setTimeout(0).setNoDelay(true).setKeepAlive(true, tcpKeepAliveMs);
    upstream.setTimeout(0).setNoDelay(true);
    socket.write(text);
    const { head: clientHead, authenticate, onClose, onOpen, onStall } = options;
    onOpen(
      new Tunnel({
        client: socket,
        upstream,
        clientHead,
        upstreamHead,
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
