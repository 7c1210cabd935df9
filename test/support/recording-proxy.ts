import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Exchange {
  readonly request: string;
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A proxy between clients and the service that keeps each answer with its headers. */
export async function recordingProxy(upstream: string) {
  const exchanges: Exchange[] = [];
  const { hostname, port } = new URL(upstream);
  const server = createServer((request, response) => {
    const { method = '', url = '', headers } = request;
    const passed = httpRequest({ hostname, port, method, path: url, headers }, (answer) => {
      const chunks: Buffer[] = [];
      response.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', () => {
        const body = Buffer.concat(chunks).toString();
        exchanges.push({
          request: `${method} ${url}`,
          status: answer.statusCode ?? 0,
          headers: answer.headers,
          body,
        });
      });
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    request.pipe(passed);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    exchanges: exchanges as readonly Exchange[],
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
