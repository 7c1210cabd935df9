import { createServer, type Server } from 'node:net';

export interface Reservation {
  readonly address: string;
  release(): Promise<void>;
}

/** 127.64.0.0/10, without octets that look like a network or a broadcast address. */
export function loopbackAddress(random: () => number): string {
  const octet = (from: number, count: number) => from + Math.floor(random() * count);
  return `127.${octet(64, 64)}.${octet(1, 254)}.${octet(1, 254)}`;
}

const listen = (host: string, port: number): Promise<Server> =>
  new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', reject);
    server.listen({ host, port, exclusive: true }, () => resolve(server));
  });

const codeOf = (error: unknown): unknown => (error instanceof Error && 'code' in error ? error.code : undefined);

const attempts = 50;

/**
 * Addresses for pods. One is taken as long as this process listens on a fixed port of it: no two nodes of the machine can give the
 * same one away, and the kernel lets go of it when the process dies, however it dies.
 */
export class AddressPool {
  readonly #random: () => number;
  readonly #port: number;

  constructor(options: { readonly random: () => number; readonly port: number }) {
    this.#random = options.random;
    this.#port = options.port;
  }

  /** Takes an address, `preferred` if it is free. Throws where loopback addresses can't be bound, as on macOS without aliases. */
  async reserve(preferred?: string): Promise<Reservation> {
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      const address = attempt === 0 && preferred !== undefined ? preferred : loopbackAddress(this.#random);
      try {
        const server = await listen(address, this.#port);
        return { address, release: () => new Promise((resolve) => server.close(() => resolve())) };
      } catch (error) {
        if (codeOf(error) === 'EADDRINUSE') continue;
        throw new Error(
          `can't listen on ${address}:${this.#port}: pods need the loopback addresses 127.64.0.0/10, which Linux has and other systems must be given`,
          { cause: error },
        );
      }
    }
    throw new Error(
      `no loopback address is free after ${attempts} attempts: does a program listen on port ${this.#port} of all addresses, a kubelet perhaps?`,
    );
  }
}
