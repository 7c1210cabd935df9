import type { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from '@conversation-operator/base/logger';
import { Shares } from '@conversation-operator/base/shares';
import type { LimitMetrics } from './limit-metrics.ts';
import { Refusal } from '../refusal.ts';
import { subscriberOf, type TrustedProxies } from './client-address.ts';

export interface AddressConnectionsOptions {
  /** Maximum of one client address (of IPv6 its /64) at once; 0: no limit. */
  readonly max: number;
  readonly proxies: TrustedProxies;
  readonly metrics: Pick<LimitMetrics, 'droppedConnections'>;
  readonly logger: Logger;
}

/**
 * Limits the concurrent connections of one client address. Connections count for clients that
 * connect directly; requests and WebSockets under way count for clients behind a trusted proxy,
 * because the connections of the proxy carry the requests of other clients too.
 */
export class AddressConnections {
  readonly #options: AddressConnectionsOptions;
  readonly #shares: Shares;
  /** Networks that have been refused since one of their connections was closed. */
  readonly #refused = new Set<string>();

  constructor(options: AddressConnectionsOptions) {
    this.#options = options;
    this.#shares = new Shares({ total: Infinity, perOwner: options.max, refuse: tooMany });
  }

  /** Number of networks with something open. */
  get size(): number {
    return this.#shares.size;
  }

  /** Counts a new connection, or closes it where its address has too many. */
  admit(socket: Socket): void {
    const { max, proxies } = this.#options;
    if (max === 0 || proxies.carries(socket)) return;
    const release = this.#enter(proxies.clientAddress({ headers: {}, socket }));
    if (release === undefined) socket.destroy();
    else socket.once('close', release);
  }

  /**
   * Counts a request that comes through a trusted proxy. Returns a refusal where its client has too
   * many under way.
   * @param carrier The response or socket that closes when the request is over.
   */
  refusal(request: IncomingMessage, carrier: EventEmitter): Refusal | undefined {
    const { max, proxies } = this.#options;
    if (max === 0 || !proxies.carries(request.socket)) return undefined;
    const address = proxies.clientAddress(request);
    // A health check of the proxy itself.
    if (proxies.has(address)) return undefined;
    const release = this.#enter(address);
    if (release === undefined) return tooMany();
    carrier.once('close', release);
    return undefined;
  }

  #enter(address: string): (() => void) | undefined {
    const { metrics, logger } = this.#options;
    const owner = subscriberOf(address);
    if (!this.#shares.hasRoom({ owner })) {
      metrics.droppedConnections.inc();
      if (!this.#refused.has(owner))
        logger.warn(
          'Too many connections of one address; add it to the trusted proxies if it is one',
          { address },
        );
      this.#refused.add(owner);
      return undefined;
    }
    const release = this.#shares.take({ owner });
    return () => {
      release();
      this.#refused.delete(owner);
    };
  }
}

const tooMany = (): Refusal =>
  new Refusal('too-many-connections', 'Too many requests from your address are under way.', {
    headers: { 'retry-after': '1' },
  });
