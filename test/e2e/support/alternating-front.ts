import { once } from 'node:events';
import { request as send } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream';

/** The two requests of a sign-in at a provider. */
const signIn = /^\/(?:login|oauth\/callback)\/\w/;

/**
 * TLS in front of replicas. Each request goes to another replica than the one before, and each of
 * a sign-in to another one than the request of a sign-in before.
 */
export class AlternatingFront {
  /** Requests by replica. */
  readonly served: number[];
  readonly #server: Server;
  readonly #replicas: readonly string[];
  readonly #turns = { signIn: 0, other: 0 };

  private constructor(
    replicas: readonly string[],
    tls: { readonly cert: string; readonly key: string },
  ) {
    this.#replicas = replicas;
    this.served = replicas.map(() => 0);
    this.#server = createServer({ cert: tls.cert, key: tls.key }, (request, response) =>
      this.#forward(request, response),
    );
  }

  /** @param replicas Base URLs. */
  static async start(
    replicas: readonly string[],
    tls: { readonly cert: string; readonly key: string },
  ): Promise<AlternatingFront> {
    const front = new AlternatingFront(replicas, tls);
    front.#server.listen(0, '127.0.0.1');
    await once(front.#server, 'listening');
    return front;
  }

  /** Address of this machine. */
  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #forward(request: IncomingMessage, response: ServerResponse): void {
    const { method = 'GET', url = '/', headers } = request;
    const turn = this.#turns[signIn.test(url) ? 'signIn' : 'other']++ % this.#replicas.length;
    this.served[turn] = (this.served[turn] ?? 0) + 1;
    const forwarded = send(new URL(url, this.#replicas[turn]), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      // A stream that has no event yet has headers.
      response.flushHeaders();
      pipeline(answer, response, () => undefined);
    });
    forwarded.on('error', () => response.destroy());
    response.on('close', () => forwarded.destroy());
    request.pipe(forwarded);
  }
}
