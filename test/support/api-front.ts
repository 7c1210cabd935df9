import { once } from 'node:events';
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Call {
  readonly method: string;
  readonly path: string;
}

/** A proxy of the API server that refuses the requests a test names, and delays others. */
export interface ApiFront {
  readonly url: string;
  /** A Kubernetes Status to answer instead of passing the request on; undefined passes it on. */
  refuse: (
    call: Call,
  ) => { readonly code: number; readonly reason: string; readonly message: string } | undefined;
  /** Delay before a request is passed on, in milliseconds; none by default. */
  delayMs: (call: Call) => number;
  close(): Promise<void>;
}

/** An HTTP server in front of an API server, on a port that is free or the given one. */
export async function startApiFront(target: string, port = 0): Promise<ApiFront> {
  const front: Pick<ApiFront, 'refuse' | 'delayMs'> = { refuse: () => undefined, delayMs: () => 0 };
  const pass = (incoming: IncomingMessage, response: ServerResponse): void => {
    const { method = 'GET', url: path = '/', headers } = incoming;
    const refusal = front.refuse({ method, path });
    if (refusal !== undefined) {
      incoming.resume();
      const body = {
        kind: 'Status',
        apiVersion: 'v1',
        metadata: {},
        status: 'Failure',
        ...refusal,
      };
      response
        .writeHead(refusal.code, { 'content-type': 'application/json' })
        .end(JSON.stringify(body));
      return;
    }
    const send = (): void => {
      const outgoing = request(new URL(path, target), { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        // A watch has headers long before its first event.
        response.flushHeaders();
        answer.pipe(response);
      });
      outgoing.on('error', () => response.destroy());
      response.on('close', () => outgoing.destroy());
      incoming.pipe(outgoing);
    };
    const delayMs = front.delayMs({ method, path });
    if (delayMs === 0) send();
    else setTimeout(send, delayMs);
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
