import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server that gives values of secrets, as the tests set them, to those who have its key. */
export class LookupServer implements AsyncDisposable {
  readonly #server: Server;
  /** Answers by path: a status, a text, or the path of a redirect. Absent: no answer at all. */
  readonly answers = new Map<string, number | string | { readonly location: string }>();
  /** Paths of the requests, oldest first. */
  readonly requests: string[] = [];

  private constructor() {
    this.#server = createServer(({ url = '', headers }, response) => {
      this.requests.push(url);
      const answer = this.answers.get(url);
      if (headers['x-key'] !== 'key-of-lookups') response.writeHead(401).end();
      else if (typeof answer === 'number') response.writeHead(answer).end('no value');
      else if (typeof answer === 'string') response.end(answer);
      else if (answer !== undefined) response.writeHead(302, { ...answer }).end();
    });
  }

  static async start(): Promise<LookupServer> {
    const lookups = new LookupServer();
    lookups.#server.listen(0, '127.0.0.1');
    await once(lookups.#server, 'listening');
    return lookups;
  }

  /** A secret of this server, as a request has it. */
  secret(path: string) {
    const { port } = this.#server.address() as AddressInfo;
    return {
      kind: 'LookupSecret' as const,
      url: `http://127.0.0.1:${port}${path}`,
      headers: { 'X-Key': 'key-of-lookups' },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }
}
