import { once } from 'node:events';
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What stands for the API server: itself, or one that refuses what the test says. */
export interface ApiFront {
  readonly url: string;
  /** Answers with this Kubernetes Status instead of passing a request on; undefined passes it on. */
  refuse: (call: {
    readonly method: string;
    readonly path: string;
  }) => { readonly code: number; readonly reason: string; readonly message: string } | undefined;
  close(): Promise<void>;
}

/** An HTTP server in front of an API server, on a port that is free or the given one. */
export async function startApiFront(target: string, port = 0): Promise<ApiFront> {
  const front = { refuse: (): undefined => undefined } as { refuse: ApiFront['refuse'] };
  const pass = (incoming: IncomingMessage, response: ServerResponse): void => {
    const { method = 'GET', url: path = '/', headers } = incoming;
    const refusal = front.refuse({ method, path });
    if (refusal !== undefined) {
      incoming.resume();
      const body = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', ...refusal };
      response.writeHead(refusal.code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      return;
    }
    const outgoing = request(new URL(path, target), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    outgoing.on('error', () => response.destroy());
    response.on('close', () => outgoing.destroy());
    incoming.pipe(outgoing);
  };
  const server = createServer(pass).listen(port, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(front, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  });
}
