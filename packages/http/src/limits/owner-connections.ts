import type { Socket } from 'node:net';
import type { Release, Shares } from '@conversation-operator/base/shares';
import type { TrustedProxies } from './client-address.ts';

export interface OwnerConnectionsOptions {
  /** Places of the connections of all clients. */
  readonly shares: Shares;
  /**
   * Trusted proxies. Their connections carry the requests of many owners, and count for no owner.
   */
  readonly proxies: TrustedProxies;
}

interface Attribution {
  owner: string | undefined;
  release: Release;
}

/**
 * Counts the connections of each owner. A connection belongs to the owner of the last request on it
 * that showed a key.
 */
export class OwnerConnections {
  readonly #options: OwnerConnectionsOptions;
  readonly #attributions = new WeakMap<Socket, Attribution>();

  constructor(options: OwnerConnectionsOptions) {
    this.#options = options;
  }

  /**
   * Counts the connection of a request for its owner. Throws where the owner has too many
   * connections; the response then ends this one.
   */
  attribute(socket: Socket, owner: string): void {
    const known = this.#attributions.get(socket);
    if (known?.owner === owner || this.#options.proxies.carries(socket)) return;
    const attribution = known ?? this.#follow(socket);
    attribution.release();
    attribution.owner = undefined;
    attribution.release = this.#options.shares.take({ owner });
    attribution.owner = owner;
  }

  #follow(socket: Socket): Attribution {
    const attribution: Attribution = { owner: undefined, release: () => undefined };
    this.#attributions.set(socket, attribution);
    socket.once('close', () => attribution.release());
    return attribution;
  }
}
