import type { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from '@conversation-operator/kube/logger';
import type { Metrics } from '../../observability/metrics.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { isTrusted, subscriberOf, type ClientAddress } from './client-address.ts';

interface Count {
  open: number;
  isRefusing: boolean;
}

export interface AddressConnectionsOptions {
  /** Of one client address (of IPv6 its /64) at once; 0: no limit. */
  readonly max: number;
  /** Addresses and ranges of proxies whose connections carry the requests of many clients. */
  readonly trustedProxies: readonly string[];
  readonly clientAddress: ClientAddress;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

/**
 * How much of the service one client address may hold. Of a client that comes directly its connections count; of one behind a trusted
 * proxy its requests and WebSockets under way, since the connections are the proxy's and carry those of others too.
 */
export class AddressConnections {
  readonly #options: AddressConnectionsOptions;
  readonly #isProxy: (address: string) => boolean;
  readonly #counts = new Map<string, Count>();

  constructor(options: AddressConnectionsOptions) {
    this.#options = options;
    this.#isProxy = isTrusted(options.trustedProxies);
  }

  /** How many addresses have something open. */
  get size(): number {
    return this.#counts.size;
  }

  /** For each connection as it comes: closes it where its address has too many. */
  admit(socket: Socket): void {
    if (this.#options.max === 0) return;
    const address = this.#options.clientAddress({ headers: {}, socket });
    if (this.#isProxy(address)) return;
    const release = this.#enter(address);
    if (release === undefined) socket.destroy();
    else socket.once('close', release);
  }

  /**
   * For each request: a problem where it comes through a trusted proxy, and its client has too many under way.
   * @param carrier What closes when it is over.
   */
  refusal(request: IncomingMessage, carrier: EventEmitter): ProblemError | undefined {
    if (this.#options.max === 0) return undefined;
    const address = this.#options.clientAddress(request);
    const isOfProxy = this.#isProxy(this.#options.clientAddress({ headers: {}, socket: request.socket }));
    // The proxy asks for itself, whether we are well.
    if (!isOfProxy || this.#isProxy(address)) return undefined;
    const release = this.#enter(address);
    if (release === undefined) {
      return new ProblemError('too-many-connections', 'Too many requests from your address are under way.', {
        headers: { 'retry-after': '1' },
      });
    }
    carrier.once('close', release);
    return undefined;
  }

  #enter(address: string): (() => void) | undefined {
    const { max, metrics, logger } = this.#options;
    const name = subscriberOf(address);
    const count = this.#counts.get(name) ?? { open: 0, isRefusing: false };
    if (count.open >= max) {
      metrics.droppedConnections.inc();
      if (!count.isRefusing) logger.warn('Too many connections of one address; name it in TRUSTED_PROXIES if it is a proxy', { address });
      count.isRefusing = true;
      return undefined;
    }
    count.open += 1;
    this.#counts.set(name, count);
    return () => {
      count.open -= 1;
      count.isRefusing = false;
      if (count.open === 0) this.#counts.delete(name);
    };
  }
}
