import type { Socket } from 'node:net';
import { subscriberOf, type TrustedProxies } from './client-address.ts';
import { EvictionOrder } from './eviction-order.ts';

export interface ConnectionCapOptions {
  /** Maximum concurrent connections. */
  readonly max: number;
  readonly proxies: Pick<TrustedProxies, 'clientAddress' | 'carries'>;
  /** Called for each new connection that is closed because there is no room. */
  readonly onDrop: () => void;
  /** Called for each connection that is closed to make room for a new one. */
  readonly onEvict: () => void;
}

/** Network of a client, or a connection of a trusted proxy. */
type Group = string | Socket;
type Order = EvictionOrder<Group, Socket>;

interface Place {
  readonly group: Group;
  /** Undefined while a request is under way. */
  order: Order | undefined;
}

/**
 * Limits the concurrent connections of a server. A new connection beyond the limit takes the place
 * of one that has sent no head of a request yet, else of one without a request under way: the
 * oldest of the network that has the most of them. Connections that send nothing therefore keep no
 * other client out, however few networks they come from. Connections of a trusted proxy carry the
 * requests of many clients, so that each of them counts as a network of its own.
 */
export class ConnectionCap {
  readonly #options: ConnectionCapOptions;
  readonly #silent: Order = new EvictionOrder();
  readonly #idle: Order = new EvictionOrder();
  readonly #places = new Map<Socket, Place>();

  constructor(options: ConnectionCapOptions) {
    this.#options = options;
  }

  /** Counts a new connection, and closes another one, or else the new one, beyond the limit. */
  admit(socket: Socket): void {
    const { max, proxies, onDrop, onEvict } = this.#options;
    const group = proxies.carries(socket)
      ? socket
      : subscriberOf(proxies.clientAddress({ headers: {}, socket }));
    this.#places.set(socket, { group, order: this.#silent });
    this.#silent.add(group, socket);
    socket.once('close', () => this.#leave(socket));
    if (this.#places.size <= max) return;
    const silent = this.#silent.next();
    const evicted = silent === socket ? (this.#idle.next() ?? socket) : (silent ?? socket);
    if (evicted === socket) onDrop();
    else onEvict();
    // The place is free at once; the event of the closed connection comes later.
    this.#leave(evicted);
    evicted.destroy();
  }

  /** Keeps the place of a connection that has sent the head of a request. */
  begin(socket: Socket): void {
    this.#move(socket, undefined);
  }

  /** Says that no request of a connection is under way any more. */
  end(socket: Socket): void {
    this.#move(socket, this.#idle);
  }

  #move(socket: Socket, order: Order | undefined): void {
    const place = this.#places.get(socket);
    if (place === undefined) return;
    place.order?.delete(place.group, socket);
    place.order = order;
    order?.add(place.group, socket);
  }

  #leave(socket: Socket): void {
    this.#move(socket, undefined);
    this.#places.delete(socket);
  }
}
