import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { parsePath, type PortName, type ProxyAddress } from './address.ts';
import type { HostTemplate } from './host-template.ts';

/** Origins of sandboxes, each for one port of one sandbox. */
export interface Origins {
  /** The origin of the port; undefined where it has none. */
  urlOf(sandbox: string, portName: PortName): string | undefined;
  /** A source of a content security policy that all of these origins match. */
  readonly source: string;
}

interface NamedPort {
  readonly sandbox: string;
  readonly portName: PortName;
}

/** Origins that are known by the connection that a request comes on. */
export interface AddressOrigins extends Origins {
  match(socket: Socket): NamedPort | undefined;
  /** The port that has this host and port number. */
  named(host: string): NamedPort | undefined;
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

  /**
   * The address that a text names as `urlOf` writes it, perhaps with a slash at its end; undefined
   * for any other text. `further` are the origins of the service besides its public URL. No request
   * goes to the text: the address names a sandbox, and has the form of a path of the service.
   */
  named(text: string, path: string, further: readonly string[] = []): ProxyAddress | undefined {
    const url = text.replace(/\/$/, '');
    const found = this.#namedByPath(url, further) ?? this.#namedByOrigin(url);
    return found && { ...found, path, prefix: `/sandboxes/${found.sandbox}/${found.portName}` };
  }

  /** Sources of a content security policy for requests and WebSockets to all sandboxes. */
  sources(): readonly string[] {
    const { publicUrl, template, addresses } = this.#options;
    const origins = [new URL(publicUrl()).origin, template?.source, addresses?.source];
    return origins
      .filter((origin) => origin !== undefined)
      .flatMap((origin) => [origin, origin.replace(/^http/, 'ws')]);
  }

  #namedByPath(url: string, further: readonly string[]): NamedPort | undefined {
    const start = [this.#options.publicUrl(), ...further].find((one) =>
      url.startsWith(`${one}/sandboxes/`),
    );
    const found = start === undefined ? undefined : parsePath(url.slice(start.length));
    // Something behind the name of the port would be a path of the agent's.
    return found?.path === '/' && url.endsWith(found.prefix) ? found : undefined;
  }

  #namedByOrigin(url: string): NamedPort | undefined {
    const { addresses, template } = this.#options;
    const host = url.replace(/^https?:\/\//, '');
    const found = addresses?.named(host) ?? template?.match(host);
    return found !== undefined && this.#originOf(found.sandbox, found.portName) === url
      ? found
      : undefined;
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
