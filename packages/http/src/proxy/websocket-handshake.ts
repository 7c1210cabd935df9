import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { Refusal } from '../refusal.ts';

const acceptSuffix = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const keyShape = /^[+/0-9A-Za-z]{22}==$/;
const maxExtensionBytes = 1024;

/** The parts of a WebSocket handshake (RFC 6455 §4) that both sides agree upon. */
export interface Handshake {
  readonly key: string;
  readonly protocol: string | undefined;
  readonly extensions: string | undefined;
  readonly origin: string | undefined;
}

const refuse = (detail: string) => new Refusal('malformed-request', detail);

/** Whether a request asks for a WebSocket. `readHandshake` checks its other headers later. */
export const isWebSocketRequest = ({ headers }: IncomingMessage): boolean =>
  headers.upgrade?.toLowerCase() === 'websocket';

/** Reads a handshake. Throws `malformed-request` for one that no WebSocket client sends. */
export function readHandshake({ method, httpVersion, headers }: IncomingMessage): Handshake {
  if (method !== 'GET' || httpVersion !== '1.1')
    throw refuse('A WebSocket begins with a GET of HTTP/1.1.');
  // Bytes behind the head would be a body for one reader and frames for another.
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

/** The headers of the handshake, which are added to those that the upstream gets anyway. */
export const handshakeHeaders = ({ key, protocol, extensions }: Handshake): string[] => [
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

/**
 * The head of the answer to the client; undefined where the upstream's answer is not one to this
 * handshake.
 */
export function switchingProtocols(
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
