import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Agents that cost the gateway most: they take every connection, agree to every WebSocket, send
 * without end at /pour, and answer nothing else. Prints the port.
 */
const chunk = Buffer.alloc(64 * 1024, 'x');
const server = createServer((request, response) => {
  request.resume();
  if (!request.url?.startsWith('/pour')) return;
  const pour = () => {
    while (!response.destroyed && response.write(chunk));
  };
  response.on('drain', pour).on('error', () => undefined);
  pour();
});
server.requestTimeout = 0;
server.on('upgrade', (request, socket) => {
  const accept = createHash('sha1')
    .update(`${request.headers['sec-websocket-key'] ?? ''}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64');
  socket.on('error', () => undefined).resume();
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
  );
});
server.listen(0, '127.0.0.1', () =>
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`),
);
