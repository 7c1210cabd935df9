import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

export interface JsonCall {
  readonly method: string;
  /** Path and query, as they were sent. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
}

export interface JsonAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Text to send instead of a body of JSON. */
  readonly text?: string;
}

export type JsonHandler = (
  call: JsonCall,
  raw: { readonly request: IncomingMessage; readonly response: ServerResponse },
) => JsonAnswer | undefined;

export interface JsonHost {
  readonly url: string;
  readonly calls: readonly JsonCall[];
  /** The calls as `GET /path?query`. */
  readonly targets: readonly string[];
  close(): Promise<void>;
}

/** A server for JSON. A handler that returns undefined answers by itself, or never. */
export async function startJsonHost(handle: JsonHandler): Promise<JsonHost> {
  const calls: JsonCall[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      let text = '';
      for await (const chunk of request) text += String(chunk);
      const { method = '', url: target = '', headers } = request;
      const call = {
        method,
        target,
        headers,
        body: (text === '' ? undefined : JSON.parse(text)) as unknown,
      };
      calls.push(call);
      const answer = handle(call, { request, response });
      if (answer === undefined) return;
      response.writeHead(answer.status ?? 200, answer.headers);
      response.end(answer.text ?? JSON.stringify(answer.body ?? {}));
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    calls,
    get targets() {
      return calls.map(({ method, target }) => `${method} ${target}`);
    },
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
