import type { Socket } from 'node:net';
import { ProblemError } from '../errors/problem-error.ts';
import { isTrusted, type ClientAddress } from './client-address.ts';
import { Shares, type Release } from '@conversation-operator/kube/shares';

export interface OwnerConnectionsOptions {
  /** Maximum connections at once of all clients; 0: no limit. One owner may have a quarter of them. */
  readonly max: number;
  /** Addresses and ranges of proxies, whose connections carry the requests of many owners and count for none. */
  readonly trustedProxies: readonly string[];
  readonly clientAddress: ClientAddress;
}

const ownersShare = 1 / 4;

interface Attribution {
  owner: string | undefined;
  release: Release;
}

/** How many connections of clients each owner has. A connection belongs to the owner of the last request on it that showed a key. */
export class OwnerConnections {
  readonly #options: OwnerConnectionsOptions;
  readonly #isProxy: (address: string) => boolean;
  readonly #shares: Shares;
  readonly #attributions = new WeakMap<Socket, Attribution>();

  constructor(options: OwnerConnectionsOptions) {
    this.#options = options;
    this.#isProxy = isTrusted(options.trustedProxies);
    const total = options.max || Infinity;
    this.#shares = new Shares({ total, perOwner: Math.ceil(total * ownersShare), refuse: tooMany });
  }

  /** For each request whose owner is known. Throws where the owner has too many connections; the answer then ends this one. */
  attribute(socket: Socket, owner: string): void {
    const known = this.#attributions.get(socket);
    if (this.#options.max === 0 || known?.owner === owner || this.#isProxy(this.#options.clientAddress({ headers: {}, socket }))) return;
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

const tooMany = (): ProblemError =>
  new ProblemError('share-exceeded', 'Too many of your connections are open. Close some, or use them for more than one request.', {
    headers: { 'retry-after': '1', connection: 'close' },
  });
