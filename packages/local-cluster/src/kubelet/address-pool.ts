import { systemCodeOf } from '@conversation-operator/base/system-code';
import { createServer, type ListenOptions, type Server } from 'node:net';

export interface Reservation {
  readonly address: string;
  release(): Promise<void>;
}

/**
 * Returns an address of 127.64.0.0/10, without octets that resemble a network or a broadcast
 * address.
 */
export function loopbackAddress(random: () => number): string {
  const octet = (from: number, count: number) => from + Math.floor(random() * count);
  return `127.${octet(64, 64)}.${octet(1, 254)}.${octet(1, 254)}`;
}

/** Listens only to hold a name: connections are closed. */
export const listen = (options: ListenOptions): Promise<Server> =>
  new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', reject);
    server.listen(options, () => resolve(server));
  });

export const closed = (server: Server): Promise<void> =>
  new Promise((resolve) => server.close(() => resolve()));

const maxAttempts = 50;

/**
 * Addresses for pods. This process reserves an address by listening on a fixed port of the address:
 * no two nodes of the machine can reserve the same address, and the kernel releases the address
 * when the process ends, even when it is killed.
 */
export class AddressPool {
  readonly #random: () => number;
  readonly #port: number;

  constructor(options: { readonly random: () => number; readonly port: number }) {
    this.#random = options.random;
    this.#port = options.port;
  }

  /**
   * Reserves an address, `preferred` if that one is free. Throws where the system cannot bind
   * loopback addresses, such as macOS without aliases.
   */
  async reserve(preferred?: string): Promise<Reservation> {
    for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
      const address =
        attempt === 0 && preferred !== undefined ? preferred : loopbackAddress(this.#random);
      try {
        const server = await listen({ host: address, port: this.#port, exclusive: true });
        return { address, release: () => closed(server) };
      } catch (error) {
        if (systemCodeOf(error) === 'EADDRINUSE') continue;
        throw new Error(
          `can't listen on ${address}:${this.#port}: pods need the loopback addresses 127.64.0.0/10, which Linux provides and other systems need as aliases`,
          { cause: error },
        );
      }
    }
    throw new Error(
      `no loopback address is free after ${maxAttempts} attempts; another program, for example a kubelet, may listen on port ${this.#port} of all addresses`,
    );
  }
}
