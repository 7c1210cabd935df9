import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { refuseConnection } from '../body/send-json.ts';
import { Tunnel, type TunnelOptions, type ForwardingLimits } from './tunnel.ts';
import { UpstreamError, type Target } from './upstream.ts';
import { createHash } from 'node:crypto';
import { Refusal } from '../refusal.ts';

const acceptSuffix = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const keyShape = /^[+/0-9A-Za-z]{22}==$/;
const maxExtensionBytes = 1024;

/** A client's WebSocket handshake (RFC 6455 §4). */
interface Handshake {
  readonly key: string;
  readonly protocol: string | undefined;
  readonly extensions: string | undefined;
  readonly origin: string | undefined;
}

const refuse = (detail: string) => new Refusal('malformed-request', detail);

/** Whether a request asks for a WebSocket. `readHandshake` checks its other headers later. */
export const isWebSocketRequest = ({ headers }: IncomingMessage): boolean =>
  headers.upgrade?.toLowerCase() === 'websocket';

/** Reads a client's handshake. Throws `malformed-request` if the handshake is invalid. */
export function readHandshake({ method, httpVersion, headers }: IncomingMessage): Handshake {
  if (method !== 'GET' || httpVersion !== '1.1')
    throw refuse('A WebSocket begins with a GET of HTTP/1.1.');
  // Some servers would read bytes after the head as a body, others as frames.
  if (headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined)
    throw refuse('A WebSocket handshake has no body.');
  if (headers['sec-websocket-version'] !== '13')
    throw refuse('The WebSocket version has to be 13.');
  const key = headers['sec-websocket-key'];
  if (key === undefined || !keyShape.test(key))
    throw refuse('The handshake needs a Sec-WebSocket-Key.');
  const extensions = headers['sec-websocket-extensions'];
  const protocol = headers['sec-websocket-protocol'];
  if ((extensions?.length ?? 0) > maxExtensionBytes || (protocol?.length ?? 0) > maxExtensionBytes)
    throw refuse('The handshake is too long.');
  return { key, protocol, extensions, origin: headers.origin };
}

/** Returns the headers of a handshake as alternating names and values. */
const handshakeHeaders = ({ key, protocol, extensions }: Handshake): string[] => [
  'connection',
  'Upgrade',
  'upgrade',
  'websocket',
  'sec-websocket-version',
  '13',
  'sec-websocket-key',
  key,
  ...(protocol === undefined ? [] : ['sec-websocket-protocol', protocol]),
  ...(extensions === undefined ? [] : ['sec-websocket-extensions', extensions]),
];

const acceptOf = (key: string): string =>
  createHash('sha1').update(`${key}${acceptSuffix}`).digest('base64');

/** Returns the response's head for the client; undefined if `answer` does not accept `key`. */
function switchingProtocols(
  { key }: Handshake,
  answer: IncomingMessage,
  requestId: string,
): string | undefined {
  const { headers } = answer;
  if (
    headers.upgrade?.toLowerCase() !== 'websocket' ||
    headers['sec-websocket-accept'] !== acceptOf(key)
  )
    return undefined;
  const { 'sec-websocket-protocol': protocol, 'sec-websocket-extensions': extensions } = headers;
  return [
    'HTTP/1.1 101 Switching Protocols',
    'Upgrade: websocket',
    'Connection: Upgrade',
    `Sec-WebSocket-Accept: ${acceptOf(key)}`,
    ...(protocol === undefined ? [] : [`Sec-WebSocket-Protocol: ${protocol}`]),
    ...(extensions === undefined ? [] : [`Sec-WebSocket-Extensions: ${extensions}`]),
    `X-Request-Id: ${requestId}`,
    '',
    '',
  ].join('\r\n');
}

/** Maximum time for the upstream's response to the handshake, once connected. */
const answerMs = 10_000;
/** Maximum number of 1xx responses. More would only keep the proxy busy. */
const maxInformational = 64;
const tcpKeepAliveMs = 30_000;
/** Reuses no connection, because each WebSocket keeps its own. */
const connector = new Agent({ keepAlive: false });

export interface UpgradeOptions extends Pick<
  TunnelOptions,
  'authenticate' | 'clock' | 'onStall' | 'onClose'
> {
  readonly socket: Duplex;
  readonly head: Buffer;
  readonly target: Target;
  readonly path: string;
  /** Headers for the upstream, except those of `handshake`, as alternating names and values. */
  readonly headers: readonly string[];
  readonly handshake: Handshake;
  readonly requestId: string;
  readonly limits: ForwardingLimits;
  /** Called with the upstream's status, or 0 if the client has closed. Not called on a failure. */
  readonly onStatus: (status: number) => void;
  /** Called if the upstream gives no usable response. The caller responds to the client. */
  readonly onFailure: (error: UpstreamError) => void;
  readonly onOpen: (tunnel: Tunnel) => void;
}

/** Sends a client's handshake to the upstream, and opens a `Tunnel` if the upstream accepts it. */
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
