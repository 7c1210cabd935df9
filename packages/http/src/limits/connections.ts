import type { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from '@conversation-operator/base/logger';
import { Shares, type Holder, type Release } from '@conversation-operator/base/shares';
import { Refusal } from '../refusal.ts';
import { subscriberOf, type TrustedProxies } from './client-address.ts';

/**
 * Members of groups in the order of eviction. The oldest member of the largest group comes first.
 * If several groups are equally large, the group that reached its size first comes first.
 */
export class EvictionOrder<Group, Member> {
  /** Groups in the order in which they reached their size, members in the order of addition. */
  readonly #groups = new Map<Group, Set<Member>>();

  get size(): number {
    return this.#groups.size;
  }

  /** Adds a member, which must not be in a group. */
  add(group: Group, member: Member): void {
    const members = this.#groups.get(group) ?? new Set();
    this.#groups.delete(group);
    this.#groups.set(group, members.add(member));
  }

  /** Does nothing if the group lacks the member. */
  delete(group: Group, member: Member): void {
    const members = this.#groups.get(group);
    if (members?.delete(member) !== true) return;
    this.#groups.delete(group);
    if (members.size > 0) this.#groups.set(group, members);
  }

  next(): Member | undefined {
    let largest: ReadonlySet<Member> = new Set();
    for (const members of this.#groups.values()) if (members.size > largest.size) largest = members;
    return largest.values().next().value;
  }
}

export interface ConnectionsOptions {
  /** Semaphore with the limits of connections for all clients and for each owner. */
  readonly places: Shares;
  /** Maximum connections of one client address, or IPv6 /64; 0, the default: no limit. */
  readonly perAddress?: number | undefined;
  readonly proxies: TrustedProxies;
  /** Returns the owner of all connections from an address; undefined if it has no single owner. */
  readonly ownerOf?: (address: string) => string | undefined;
  readonly metrics: {
    readonly droppedConnections: { inc(): void };
    readonly evictedConnections: { inc(): void };
  };
  readonly logger: Logger;
}

/** Network of a client, or a connection of a trusted proxy. */
type Group = string | Socket;
type Order = EvictionOrder<Group, Socket>;

interface Connection {
  readonly group: Group;
  /** The eviction order that contains the connection; undefined during a request. */
  order: Order | undefined;
  readonly leaveAddress: Release;
  holder: Holder | undefined;
  leaveHolder: Release;
}

const noRelease: Release = () => undefined;

/**
 * Limits the concurrent connections of a server: of all clients, of one client address, and of one
 * owner.
 * - Beyond the limit of all clients, a new connection evicts another one. Candidates are
 *   connections that have sent no request head or, if there are none, connections without a running
 *   request. The network with most candidates loses its oldest one. Clients that only open
 *   connections can thus not block other clients, even from many networks.
 * - A connection counts for the owner of its last request with an API key.
 * - A connection of a trusted proxy carries requests of many clients, so it counts as a network of
 *   its own and for no owner. Its running requests and WebSockets count for the client's address.
 */
export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #silent: Order = new EvictionOrder();
  readonly #idle: Order = new EvictionOrder();
  readonly #open = new Map<Socket, Connection>();
  readonly #addresses: Shares;
  /** Networks whose refusal is logged already; removed when one of their connections closes. */
  readonly #refused = new Set<string>();

  constructor(options: ConnectionsOptions) {
    const { perAddress = 0 } = options;
    this.#options = options;
    this.#addresses = new Shares({
      total: Infinity,
      perOwner: perAddress === 0 ? Infinity : perAddress,
      refuse: tooMany,
    });
  }

  /** Counts a new connection. Beyond a limit, closes another connection or else the new one. */
  admit(socket: Socket): void {
    const { proxies, places, ownerOf, metrics } = this.#options;
    const address = proxies.clientAddress({ headers: {}, socket });
    const isShared = proxies.carries(socket);
    const leaveAddress = isShared ? noRelease : this.#enter(address);
    if (leaveAddress === undefined) {
      socket.destroy();
      return;
    }
    const group = isShared ? socket : subscriberOf(address);
    const order = this.#silent;
    this.#open.set(socket, {
      group,
      order,
      leaveAddress,
      holder: undefined,
      leaveHolder: noRelease,
    });
    order.add(group, socket);
    socket.once('close', () => this.#leave(socket));
    const owner = ownerOf?.(address);
    const hasRoom = owner === undefined || places.hasRoom({ owner });
    if (hasRoom && owner !== undefined) this.attribute(socket, { owner });
    if (hasRoom && this.#open.size <= places.total) return;
    const silent = this.#silent.next();
    const other = silent === socket ? this.#idle.next() : silent;
    const evicted = hasRoom ? (other ?? socket) : socket;
    (evicted === socket ? metrics.droppedConnections : metrics.evictedConnections).inc();
    // Frees the permit at once, before the `close` event of the evicted connection.
    this.#leave(evicted);
    evicted.destroy();
  }

  /** Protects a connection from eviction while its request runs. */
  begin(socket: Socket): void {
    this.#move(socket, undefined);
  }

  /** Permits the eviction of a connection whose requests have ended. */
  end(socket: Socket): void {
    this.#move(socket, this.#idle);
  }

  /**
   * Counts a connection for the owner of its request, and for the sandbox if there is one. Throws
   * if either has too many connections. The caller's error response then closes the connection.
   */
  attribute(socket: Socket, holder: Holder): void {
    const connection = this.#open.get(socket);
    if (connection === undefined || this.#options.proxies.carries(socket)) return;
    const { holder: present } = connection;
    if (present?.owner === holder.owner && present.sandbox === holder.sandbox) return;
    connection.leaveHolder();
    connection.holder = undefined;
    connection.leaveHolder = this.#options.places.take(holder);
    connection.holder = holder;
  }

  /**
   * Counts a trusted proxy's request. Returns a refusal if its client has too many requests.
   * @param carrier The response or socket that closes when the request is over.
   */
  refusal(request: IncomingMessage, carrier: EventEmitter): Refusal | undefined {
    const { proxies } = this.#options;
    if (!proxies.carries(request.socket)) return undefined;
    const address = proxies.clientAddress(request);
    // The request is a health check of the proxy itself.
    if (proxies.has(address)) return undefined;
    const release = this.#enter(address);
    if (release === undefined) return tooMany();
    carrier.once('close', release);
    return undefined;
  }

  #enter(address: string): Release | undefined {
    const { metrics, logger } = this.#options;
    const owner = subscriberOf(address);
    if (this.#addresses.hasRoom({ owner })) {
      const release = this.#addresses.take({ owner });
      return () => {
        release();
        this.#refused.delete(owner);
      };
    }
    metrics.droppedConnections.inc();
    if (!this.#refused.has(owner))
      logger.warn(
        'Too many connections of one address; add it to the trusted proxies if it is one',
        { address },
      );
    this.#refused.add(owner);
    return undefined;
  }

  #move(socket: Socket, order: Order | undefined): void {
    const connection = this.#open.get(socket);
    if (connection === undefined) return;
    connection.order?.delete(connection.group, socket);
    connection.order = order;
    order?.add(connection.group, socket);
  }

  #leave(socket: Socket): void {
    this.#move(socket, undefined);
    const connection = this.#open.get(socket);
    this.#open.delete(socket);
    connection?.leaveAddress();
    connection?.leaveHolder();
  }
}

const tooMany = (): Refusal =>
  new Refusal('too-many-connections', 'Too many requests from your address are under way.', {
    headers: { 'retry-after': '1' },
  });
