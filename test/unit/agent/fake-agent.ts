import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { AgentEndpoint } from '../../../src/agent/agent.ts';

export interface SeenRequest {
  readonly route: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
  /** The client's port: the same for those that came over one connection. */
  readonly connection: number | undefined;
}

export interface FakeAnswer {
  readonly status?: number;
  readonly body?: unknown;
  /** Sent as it is, instead of `body`. */
  readonly text?: string;
  /** Sent as they are, instead of `body`. */
  readonly bytes?: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  readonly afterMs?: number;
}

/** `hang`: no answer. `reset`: the connection breaks. */
type Script = FakeAnswer | 'hang' | 'reset' | ((request: SeenRequest) => FakeAnswer);

export interface FakeAgent extends AsyncDisposable {
  readonly endpoint: AgentEndpoint;
  readonly requests: readonly SeenRequest[];
}

/** Answers each route, such as `GET /ready`, with its scripts in order; the last one stays. */
export async function fakeAgent(
  routes: Readonly<Record<string, Script | readonly Script[]>>,
  {
    idleCloseMs,
  }: {
    /** How long it keeps an unused connection; the real one 5 s. */ readonly idleCloseMs?: number;
  } = {},
): Promise<FakeAgent> {
  const requests: SeenRequest[] = [];
  const left = new Map(
    Object.entries(routes).map(([route, scripts]) => [
      route,
      Array.isArray(scripts) ? [...(scripts as Script[])] : [scripts as Script],
    ]),
  );
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const url = new URL(request.url ?? '/', 'http://agent');
      const text = Buffer.concat(chunks).toString('utf8');
      const seen: SeenRequest = {
        route: `${request.method ?? ''} ${url.pathname}`,
        query: Object.fromEntries(url.searchParams),
        headers: request.headers,
        body: text === '' ? undefined : JSON.parse(text),
        connection: request.socket.remotePort,
      };
      requests.push(seen);
      const scripts = left.get(seen.route) ?? [{ status: 404, body: { detail: 'Not Found' } }];
      const script = scripts.length > 1 ? scripts.shift() : scripts[0];
      answer(response, typeof script === 'function' ? script(seen) : (script ?? {}));
    });
  });
  if (idleCloseMs !== undefined) {
    // As the real agent: at that time, and without a notice before.
    server.keepAliveTimeout = idleCloseMs;
    server.keepAliveTimeoutBuffer = 0;
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: {
      baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      sessionKey: 'session-key',
    },
    requests,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function answer(response: ServerResponse, script: FakeAnswer | 'hang' | 'reset'): void {
  if (script === 'hang') return;
  if (script === 'reset') {
    response.socket?.destroy();
    return;
  }
  const say = () => {
    response.writeHead(script.status ?? 200, {
      'content-type': 'application/json',
      'keep-alive': '',
      ...script.headers,
    });
    response.end(script.bytes ?? script.text ?? JSON.stringify(script.body ?? {}));
  };
  if (script.afterMs === undefined) say();
  else setTimeout(say, script.afterMs);
}

export const conversationId = '11111111111141118111111111111111';
export const dashedId = '11111111-1111-4111-8111-111111111111';
export const conversationPath = `/api/conversations/${dashedId}`;

export const conversationInfo = (fields: Readonly<Record<string, unknown>> = {}) => ({
  id: dashedId,
  execution_status: 'idle',
  title: null,
  created_at: '2026-01-01T00:00:00Z',
  updated_at: '2026-01-01T00:00:05Z',
  last_user_message_id: null,
  stats: { usage_to_metrics: {} },
  ...fields,
});
