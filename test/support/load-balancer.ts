import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

const pollMs = 100;

/**
 * A load balancer like a Service of Kubernetes: each new connection goes to the next backend whose
 * /ready answers yes, and stays there. The balancer repeats nothing and hides nothing that a
 * backend does.
 */
export class LoadBalancer {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #stopped = new AbortController();
  #backends: readonly number[] = [];
  #ready: readonly number[] = [];
  #turn = 0;
  #polling: Promise<void> = Promise.resolve();
  port = 0;

  private constructor() {
    this.#server = createServer((client) => this.#accept(client));
  }

  static async start(): Promise<LoadBalancer> {
    const balancer = new LoadBalancer();
    balancer.#server.listen(0, '127.0.0.1');
    await once(balancer.#server, 'listening');
    balancer.port = (balancer.#server.address() as AddressInfo).port;
    balancer.#polling = balancer.#poll();
    return balancer;
  }

  /** The ports that new connections may go to, once they are ready. */
  set backends(ports: readonly number[]) {
    this.#backends = ports;
  }

  get ready(): readonly number[] {
    return this.#ready;
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await this.#polling;
  }

  async #poll(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      const answers = await Promise.all(
        this.#backends.map(async (port) => ({ port, isReady: await isReady(port) })),
      );
      this.#ready = answers.filter((answer) => answer.isReady).map(({ port }) => port);
      await delay(pollMs, undefined, { signal: this.#stopped.signal }).catch(() => undefined);
    }
  }

  #accept(client: Socket): void {
    const port = this.#ready[this.#turn++ % this.#ready.length];
    if (port === undefined) {
      client.destroy();
      return;
    }
    const backend = connect(port, '127.0.0.1');
    for (const [one, other] of [
      [client, backend],
      [backend, client],
    ] as const) {
      this.#sockets.add(one);
      one.setNoDelay(true);
      one.on('error', () => other.resetAndDestroy());
      one.once('close', () => this.#sockets.delete(one));
      one.pipe(other);
    }
  }
}

async function isReady(port: number): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}/ready`, { headers: { connection: 'close' } })).ok;
  } catch {
    return false;
  }
}
