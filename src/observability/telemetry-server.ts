import { createServer } from 'node:http';
import { listenOn } from '@conversation-operator/http/server/listen';
import type { Metrics } from './metrics.ts';

export interface TelemetryServerOptions {
  readonly host: string;
  /** Port to listen on; 0 selects any free port. */
  readonly port: number;
  readonly metrics: Metrics;
  /** Whether this process can do its work, which is the response of /ready. */
  readonly ready: () => boolean;
}

export interface TelemetryServer {
  readonly port: number;
  close(): Promise<void>;
}

/** Serves /metrics, /alive and /ready on a separate port that clients do not reach. */
export async function startTelemetryServer({
  host,
  port,
  metrics,
  ready,
}: TelemetryServerOptions): Promise<TelemetryServer> {
  const server = createServer((request, response) => {
    const answer = (status: number, body: string, type = 'text/plain; charset=utf-8') =>
      response.writeHead(status, { 'Content-Type': type }).end(body);
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      answer(405, 'only GET\n');
      return;
    }
    switch (request.url) {
      case '/metrics':
        metrics.registry.metrics().then(
          (text) => answer(200, text, metrics.registry.contentType),
          () => answer(500, 'the metrics could not be collected\n'),
        );
        break;
      case '/alive':
        answer(200, 'ok\n');
        break;
      case '/ready':
        answer(ready() ? 200 : 503, ready() ? 'ok\n' : 'not ready\n');
        break;
      default:
        answer(404, 'there is /metrics, /alive and /ready\n');
    }
  });
  server.headersTimeout = 5_000;
  server.requestTimeout = 10_000;
  return {
    ...(await listenOn(server, { name: 'the server of metrics and health', host, port })),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
