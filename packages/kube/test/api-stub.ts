import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { systemClock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '../src/http-client.ts';
import { Transport, type TransportOptions } from '../src/transport.ts';
import { silentLogger } from '@conversation-operator/base/logger';

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: unknown;
}

export type Answering = (response: http.ServerResponse, request: SeenRequest) => void;

/** A loopback server: request n gets answer n, and all later ones the last answer. */
export interface ApiStub {
  readonly url: string;
  readonly port: number;
  readonly requests: readonly SeenRequest[];
  /** How many connections it has accepted. */
  readonly connections: number;
  close(): Promise<void>;
}

export async function startApiStub(answers: readonly Answering[], port = 0): Promise<ApiStub> {
  const requests: SeenRequest[] = [];
  let connections = 0;
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const url = new URL(request.url ?? '/', 'http://stub');
      const text = Buffer.concat(chunks).toString('utf8');
      const seen: SeenRequest = {
        method: request.method ?? '',
        path: url.pathname,
        query: Object.fromEntries(url.searchParams),
        headers: request.headers,
        body: text === '' ? undefined : (JSON.parse(text) as unknown),
      };
      requests.push(seen);
      answers[Math.min(requests.length, answers.length) - 1]?.(response, seen);
    });
  });
  server.on('connection', () => connections++);
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${address.port}`,
    port: address.port,
    requests,
    get connections() {
      return connections;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

export const json =
  (body: unknown, status = 200, headers: http.OutgoingHttpHeaders = {}): Answering =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(body));
  };

export const status = (
  code: number,
  reason: string,
  headers: http.OutgoingHttpHeaders = {},
): Answering =>
  json(
    {
      kind: 'Status',
      apiVersion: 'v1',
      status: 'Failure',
      code,
      reason,
      message: `it is ${reason}`,
    },
    code,
    headers,
  );

/** Closes the connection instead of answering. */
export const reset: Answering = (response) => {
  response.socket?.destroy();
};

/** Never answers. */
export const stall: Answering = () => undefined;

/** Announces more than it sends, then closes. */
export const truncated =
  (text: string): Answering =>
  (response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100000' });
    response.write(text, () => response.socket?.destroy());
  };

/** A stub, and a transport and a client to it. `close` closes both. */
export async function aTransport(
  answers: readonly Answering[],
  options: Partial<TransportOptions> = {},
) {
  const stub = await startApiStub(answers);
  const transport = new Transport({
    connection: { server: stub.url },
    clock: systemClock,
    random: () => 0,
    logger: silentLogger,
    deadlineMs: 30_000,
    ...options,
  });
  const close = async () => {
    await transport.close();
    await stub.close();
  };
  return { stub, transport, client: new HttpKubeClient({ transport }), close };
}
