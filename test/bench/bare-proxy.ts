import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Pool } from 'undici';

/**
 * As little as a proxy can be, made of the same parts as ours: it passes on what comes, and knows
 * nothing of whom it serves. Says its port.
 */
const [agentPort = ''] = process.argv.slice(2);
const pool = new Pool(`http://127.0.0.1:${agentPort}`, {
  connections: 256,
  pipelining: 1,
  allowH2: false,
});
const server = createServer((request, response) => {
  pool.dispatch(
    { path: request.url ?? '/', method: request.method ?? 'GET', headers: request.rawHeaders },
    {
      onRequestStart: () => undefined,
      onResponseStart: (controller, status) => {
        const raw = Array.isArray(controller.rawHeaders) ? controller.rawHeaders : [];
        response.writeHead(
          status,
          raw.map((part) => part.toString('latin1')),
        );
      },
      onResponseData: (_controller, chunk) => void response.write(chunk),
      onResponseEnd: () => void response.end(),
      onResponseError: () => void response.destroy(),
    },
  );
});
server.listen(0, '127.0.0.1', () =>
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`),
);
