import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { parsePath, type PortName, type ProxyAddress } from './address.ts';
import type { HostTemplate } from './host-template.ts';

/** Origins of sandboxes, each for one port of one sandbox. */
export interface Origins {
  /** The origin of the port; undefined where it has none. */
  urlOf(sandbox: string, portName: PortName): string | undefined;
}

/** Origins that are known by the connection that a request comes on. */
export interface AddressOrigins extends Origins {
  match(socket: Socket): { readonly sandbox: string; readonly portName: PortName } | undefined;
}

/** Form of the URL that a client has used. */
export interface SeenUrl {
  readonly protocol: 'http' | 'https';
  readonly host: string;
  readonly prefix: string;
}

export interface AddressingOptions {
  /** URL of the service, without a slash at the end. */
  readonly publicUrl: () => string;
  readonly template?: HostTemplate | undefined;
  readonly addresses?: AddressOrigins | undefined;
}

/**
 * Maps URLs to sandboxes. Each sandbox has a path of the service, and also an origin of its own
 * where that is configured.
 */
export class Addressing {
  readonly #options: AddressingOptions;

  constructor(options: AddressingOptions) {
    this.#options = options;
  }

  /** The absolute URL of a port for clients, without a slash at its end. */
  urlOf(sandbox: string, portName: PortName): string {
    return (
      this.#originOf(sandbox, portName) ??
      `${this.#options.publicUrl()}/sandboxes/${sandbox}/${portName}`
    );
  }

  /**
   * The address in a request for a sandbox; undefined where the request is for the service itself.
   */
  find(request: IncomingMessage): ProxyAddress | undefined {
    const { addresses, template } = this.#options;
    const path = request.url ?? '';
    const found = addresses?.match(request.socket) ?? template?.match(request.headers.host ?? '');
    return found === undefined
      ? parsePath(path)
      : { sandbox: found.sandbox, portName: found.portName, path, prefix: '' };
  }

  seenBy({ sandbox, portName, prefix }: ProxyAddress): SeenUrl {
    const url =
      (prefix === '' ? this.#originOf(sandbox, portName) : undefined) ?? this.#options.publicUrl();
    const protocol = url.startsWith('https:') ? 'https' : 'http';
    const rest = url.slice(protocol.length + '://'.length);
    const slash = rest.indexOf('/');
    if (slash < 0) return { protocol, host: rest, prefix };
    return {
      protocol,
      host: rest.slice(0, slash),
      prefix: prefix === '' ? '' : `${rest.slice(slash)}${prefix}`,
    };
  }

  #originOf(sandbox: string, portName: PortName): string | undefined {
    return (
      this.#options.addresses?.urlOf(sandbox, portName) ??
      this.#options.template?.urlOf(sandbox, portName)
    );
  }
}
