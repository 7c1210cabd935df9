import type { Socket } from 'node:net';
import { Shares, type Release } from '@conversation-operator/kube/shares';
import { Refusal } from '../refusal.ts';
import type { TrustedProxies } from './client-address.ts';

export interface OwnerConnectionsOptions {
  /**
   * Maximum concurrent connections of all clients; 0: no limit. One owner may have a quarter of
   * them.
   */
  readonly max: number;
  /**
   * Trusted proxies. Their connections carry the requests of many owners, and count for no owner.
   */
  readonly proxies: TrustedProxies;
}

const ownersShare = 1 / 4;

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
  readonly #shares: Shares;
  readonly #attributions = new WeakMap<Socket, Attribution>();

  constructor(options: OwnerConnectionsOptions) {
    this.#options = options;
    const total = options.max || Infinity;
    this.#shares = new Shares({ total, perOwner: Math.ceil(total * ownersShare), refuse: tooMany });
  }

  /**
   * Counts the connection of a request for its owner. Throws where the owner has too many
   * connections; the response then ends this one.
   */
  attribute(socket: Socket, owner: string): void {
    const known = this.#attributions.get(socket);
    if (this.#options.max === 0 || known?.owner === owner || this.#options.proxies.carries(socket))
      return;
    const attribution = known ?? this.#follow(socket);
    attribution.release();
    attribution.owner = undefined;
    attribution.release = this.#shares.take({ owner });
    attribution.owner = owner;
  }

  #follow(socket: Socket): Attribution {
    const attribution: Attribution = { owner: undefined, release: () => undefined };
    this.#attributions.set(socket, attribution);
    socket.once('close', () => attribution.release());
    return attribution;
  }
}

const tooMany = (): Refusal =>
  new Refusal(
    'share-exceeded',
    'Too many of your connections are open. Close some, or use them for more than one request.',
    {
      headers: { 'retry-after': '1', connection: 'close' },
    },
  );
