import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { parsePath, type PortName, type ProxyAddress } from './address.ts';
import type { HostTemplate } from './host-template.ts';

/** Origins of sandboxes, each for one port of one sandbox. */
export interface Origins {
  /** Undefined where it has none. */
  urlOf(sandbox: string, portName: PortName): string | undefined;
}

/** Origins that are known by the connection that a request comes on. */
export interface AddressOrigins extends Origins {
  match(socket: Socket): { readonly sandbox: string; readonly portName: PortName } | undefined;
}

/** How the URL looks that a client has used. */
export interface SeenUrl {
  readonly protocol: 'http' | 'https';
  readonly host: string;
  readonly prefix: string;
}

/** Which URLs lead to sandboxes: one way in by path for all of them, and an origin of their own where that is set up. */
export class Addressing {
  readonly #publicUrl: () => string;
  readonly #template: HostTemplate | undefined;
  readonly #addresses: AddressOrigins | undefined;

  constructor(options: {
    /** Without a slash at the end. */
    readonly publicUrl: () => string;
    readonly template?: HostTemplate | undefined;
    readonly addresses?: AddressOrigins | undefined;
  }) {
    this.#publicUrl = options.publicUrl;
    this.#template = options.template;
    this.#addresses = options.addresses;
  }

  /** Where clients find a port: absolute, without a slash at the end. */
  urlOf(sandbox: string, portName: PortName): string {
    return this.#originOf(sandbox, portName) ?? `${this.#publicUrl()}/sandboxes/${sandbox}/${portName}`;
  }

  /** Which port of which sandbox a request is for; undefined where it is for the service itself. */
  find(request: IncomingMessage): ProxyAddress | undefined {
    const path = request.url ?? '';
    const found =
      (this.#addresses && this.#addresses.match(request.socket)) ?? (this.#template && this.#template.match(request.headers.host ?? ''));
    return found === undefined ? parsePath(path) : { sandbox: found.sandbox, portName: found.portName, path, prefix: '' };
  }

  seenBy({ sandbox, portName, prefix }: ProxyAddress): SeenUrl {
    const url = (prefix === '' ? this.#originOf(sandbox, portName) : undefined) ?? this.#publicUrl();
    const protocol = url.startsWith('https:') ? 'https' : 'http';
    const rest = url.slice(protocol.length + '://'.length);
    const slash = rest.indexOf('/');
    if (slash < 0) return { protocol, host: rest, prefix };
    return { protocol, host: rest.slice(0, slash), prefix: prefix === '' ? '' : `${rest.slice(slash)}${prefix}` };
  }

  #originOf(sandbox: string, portName: PortName): string | undefined {
    return this.#addresses?.urlOf(sandbox, portName) ?? this.#template?.urlOf(sandbox, portName);
  }
}
