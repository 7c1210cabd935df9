import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { once } from 'node:events';
import { text as textOf } from 'node:stream/consumers';
import { WebSocket } from 'ws';

/** RFC 6455's registry: the server ends, come back. */
const serviceRestart = 1012;

export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface Answered {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

/** Clients with one kept connection each, which continue until stopped and repeat nothing. */
export class SteadyLoad {
  readonly #port: number;
  readonly #running: Promise<void>[] = [];
  readonly #agents: Agent[] = [];
  #stopped = false;
  readonly failures: string[] = [];
  /** By the name of what was asked. */
  readonly counts = new Map<string, number>();
  /** How often an answer said that its connection ends with it. */
  lastAnswers = 0;

  constructor(port: number) {
    this.#port = port;
  }

  /** Sends the next request once the last is answered; `accept` returns what is wrong with that. */
  ask(name: string, next: () => Sent, accept: (answer: Answered) => string | undefined): void {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    this.#agents.push(agent);
    this.#running.push(
      this.#repeat(name, async () => {
        const answer = await this.#send(agent, next());
        if (answer.headers.connection === 'close') this.lastAnswers += 1;
        return accept(answer);
      }),
    );
  }

  /** Keeps a WebSocket open that echoes, and opens another when the server asks for it. */
  talk(name: string, path: string, headers: Readonly<Record<string, string>>): void {
    this.#running.push(
      this.#repeat(name, async () => {
        const socket = new WebSocket(`ws://127.0.0.1:${this.#port}${path}`, { headers });
        let error: Error | undefined;
        socket.on('error', (cause) => (error = cause));
        // Not by `once`, which an error ends: what counts is the code, which comes behind it.
        const closed = new Promise<number>((resolve) => socket.once('close', resolve));
        const isOpen = await Promise.race([
          new Promise((resolve) => socket.once('open', () => resolve(true))),
          closed.then(() => false),
        ]);
        for (let turn = 0; isOpen === true && !this.#stopped; turn++) {
          const echo = new Promise((resolve) => socket.once('message', () => resolve(true)));
          socket.send(String(turn));
          if (!(await Promise.race([echo, closed.then(() => false)]))) break;
        }
        if (this.#stopped) socket.close();
        const code = await closed;
        if (error !== undefined && !this.#stopped) return String(error);
        return this.#stopped || code === serviceRestart ? undefined : `closed with ${code}`;
      }),
    );
  }

  /** Lets what is under way end, unless it would last. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#running);
    for (const agent of this.#agents) agent.destroy();
  }

  count(name: string): number {
    return this.counts.get(name) ?? 0;
  }

  async #repeat(name: string, turn: () => Promise<string | undefined>): Promise<void> {
    while (!this.#stopped) {
      try {
        const wrong = await turn();
        if (wrong !== undefined) this.failures.push(`${name}: ${wrong}`);
        this.counts.set(name, this.count(name) + 1);
      } catch (error) {
        this.failures.push(`${name}: ${String(error)}`);
      }
    }
  }

  async #send(agent: Agent, { method, path, headers, body = '' }: Sent): Promise<Answered> {
    const request = httpRequest({
      host: '127.0.0.1',
      port: this.#port,
      agent,
      method,
      path,
      headers: {
        ...headers,
        ...(body === ''
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
      },
    });
    request.end(body);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    return {
      status: response.statusCode ?? 0,
      headers: response.headers,
      text: await textOf(response),
    };
  }
}
