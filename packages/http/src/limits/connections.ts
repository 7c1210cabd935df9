import type { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from '@conversation-operator/base/logger';
import { Shares, type Holder, type Release } from '@conversation-operator/base/shares';
import { Refusal } from '../refusal.ts';
import { subscriberOf, type TrustedProxies } from './client-address.ts';

/**
 * Members of groups, in the order in which they are removed to make room: the next one is the
 * oldest member of the largest group, and of equally large groups that which has had this size for
 * longest.
 */
export class EvictionOrder<Group, Member> {
  /** In the order in which the groups reached their size, and members were added. */
  readonly #groups = new Map<Group, Set<Member>>();

  /** Number of groups that have members. */
  get size(): number {
    return this.#groups.size;
  }

  /** Adds a member that is in no group. */
  add(group: Group, member: Member): void {
    const members = this.#groups.get(group) ?? new Set();
    this.#groups.delete(group);
    this.#groups.set(group, members.add(member));
  }

  /** Does nothing where the group does not have the member. */
  delete(group: Group, member: Member): void {
    const members = this.#groups.get(group);
    if (members?.delete(member) !== true) return;
    this.#groups.delete(group);
    if (members.size > 0) this.#groups.set(group, members);
  }

  /** The member to remove next; undefined when there is none. */
  next(): Member | undefined {
    let largest: ReadonlySet<Member> = new Set();
    for (const members of this.#groups.values()) if (members.size > largest.size) largest = members;
    return largest.values().next().value;
  }
}

export interface ConnectionsOptions {
  /** Places of the connections of all clients, and the share of an owner. */
  readonly places: Shares;
  /** Maximum of one client address (of IPv6 its /64) at once; 0, the default: no limit. */
  readonly perAddress?: number | undefined;
  /** Trusted proxies, whose connections carry the requests of many clients. */
  readonly proxies: TrustedProxies;
  /** The owner of every connection of an address, where it is known before a request. */
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
  /** Undefined while a request is under way. */
  order: Order | undefined;
  readonly leaveAddress: Release;
  holder: Holder | undefined;
  leaveHolder: Release;
}

const noRelease: Release = () => undefined;

/**
 * Limits the concurrent connections of a server: of all clients, of one client address, and of one
 * owner.
 *
 * - A new connection beyond the limit of all takes the place of one that has sent no head of a
 *   request yet, else of one without a request under way: the oldest of the network that has the
 *   most of them. Connections that send nothing therefore keep no other client out, however few
 *   networks they come from.
 * - A connection belongs to the owner of the last request on it that showed a key.
 * - Connections of a trusted proxy carry the requests of many clients. Each counts as a network of
 *   its own and for no owner; requests and WebSockets under way count for the address of a client
 *   behind it.
 */
export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #silent: Order = new EvictionOrder();
  readonly #idle: Order = new EvictionOrder();
  readonly #open = new Map<Socket, Connection>();
  readonly #addresses: Shares;
  /** Networks that have been refused since one of their connections was closed. */
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

  /** Counts a new connection, and closes another one, or else the new one, beyond a limit. */
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

  /**
   * Counts the connection of a request for its owner, and for a sandbox where one is named. Throws
   * where either has too many connections; the response then ends this one.
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
   * Counts a request that comes through a trusted proxy. Returns a refusal where its client has too
   * many under way.
   * @param carrier The response or socket that closes when the request is over.
   */
  refusal(request: IncomingMessage, carrier: EventEmitter): Refusal | undefined {
    const { proxies } = this.#options;
    if (!proxies.carries(request.socket)) return undefined;
    const address = proxies.clientAddress(request);
    // A health check of the proxy itself.
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
