import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Answers every request with a small object, and /connections with how many connections there have
 * been. Prints its port.
 */
const body = JSON.stringify({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'one', uid: '1', resourceVersion: '1' },
  data: { key: 'x'.repeat(1000) },
});
let connections = 0;
const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  const text = request.url === '/connections' ? String(connections) : body;
  response
    .writeHead(200, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    })
    .end(text);
});
server.on('connection', () => connections++);
server.listen(0, '127.0.0.1', () =>
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`),
);
