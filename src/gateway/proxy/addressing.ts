import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/**
 * The sandbox and the path that a request for an agent names. A request never names the host to
 * which it is forwarded.
 */
export interface ProxyAddress {
  readonly sandbox: string;
  /** The path for the agent, with the query, exactly as the client has sent it. */
  readonly path: string;
  /** The part of the client's path before `path`; empty if the origin identifies the sandbox. */
  readonly prefix: string;
}

/** Name of the agent's port, the only port of a sandbox that clients can reach. */
export const agentPortName = 'AGENT_SERVER';

const pathForm = /^(\/sandboxes\/([a-z0-9][-a-z0-9.]{0,252})\/AGENT_SERVER)(?=[/?]|$)(.*)$/s;

/** Reads `/sandboxes/{id}/AGENT_SERVER/…`; undefined for anything else, including encoded ids. */
export function parsePath(target: string): ProxyAddress | undefined {
  if (!target.startsWith('/sandboxes/')) return undefined;
  const [, prefix, sandbox, rest] = pathForm.exec(target) ?? [];
  if (prefix === undefined || sandbox === undefined || rest === undefined) return undefined;
  return { sandbox, path: rest.startsWith('/') ? rest : `/${rest}`, prefix };
}

const openPaths: ReadonlySet<string> = new Set(['/alive', '/health', '/ready', '/server_info']);

/** Whether the agent answers the request without a key: the path must be one of `openPaths`. */
export function isOpen(method: string | undefined, path: string): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  const query = path.indexOf('?');
  return openPaths.has(query < 0 ? path : path.slice(0, query));
}

const shape =
  /^(https?):\/\/([a-z0-9-]*)\{sandbox\}(-{1,2})\{port\}([a-z0-9-]*)((?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+)(:\d{1,5})?\/?$/;
const sandboxLabel = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;
const maxLabelLength = 63;

const portLabel = agentPortName.toLowerCase().replaceAll('_', '-');

/**
 * Host names for the agents of sandboxes, in the form
 * `https://{sandbox}-{port}.agents.example.com`. Sandbox and port are in the first DNS label, so
 * that one wildcard DNS record and one wildcard certificate cover all host names.
 */
export class HostTemplate {
  /** A Content-Security-Policy source that matches all origins of the template. */
  readonly source: string;
  readonly #start: string;
  readonly #end: string;
  readonly #hostStart: string;
  readonly #hostEnd: string;

  /** Throws if the template does not match `shape`. */
  constructor(template: string) {
    const [, scheme, before, between, after, domain, port = ''] = shape.exec(template) ?? [];
    if (
      scheme === undefined ||
      before === undefined ||
      between === undefined ||
      after === undefined ||
      domain === undefined
    ) {
      throw new Error(
        `a URL template must have the form https://{sandbox}-{port}.agents.example.com, not ${template}`,
      );
    }
    this.source = `${scheme}://*${domain}${port}`;
    this.#hostStart = before;
    this.#hostEnd = `${between}${portLabel}${after}${domain}`;
    this.#start = `${scheme}://${before}`;
    this.#end = port;
  }

  /** The origin of a sandbox; undefined if the sandbox's name does not fit into a DNS label. */
  urlOf(sandbox: string): string | undefined {
    const host = `${this.#hostStart}${sandbox}${this.#hostEnd}`;
    return !sandboxLabel.test(sandbox) || host.indexOf('.') > maxLabelLength
      ? undefined
      : `${this.#start}${sandbox}${this.#hostEnd}${this.#end}`;
  }

  /** The sandbox that a Host header names; the port in the header is ignored. */
  match(host: string): string | undefined {
    const name = host.toLowerCase().replace(/\.?(?::\d*)?$/, '');
    if (!name.startsWith(this.#hostStart) || !name.endsWith(this.#hostEnd)) return undefined;
    const sandbox = name.slice(this.#hostStart.length, -this.#hostEnd.length);
    return sandboxLabel.test(sandbox) ? sandbox : undefined;
  }
}

interface Origins {
  urlOf(sandbox: string): string | undefined;
  /** A Content-Security-Policy source that matches all origins that `urlOf` returns. */
  readonly source: string;
}

/** Origins with an IP address for each sandbox, so that a connection identifies its sandbox. */
export interface AddressOrigins extends Origins {
  /** The sandbox whose IP address the client has connected to. */
  match(socket: Socket): string | undefined;
  /** The sandbox whose origin has this host and port. */
  named(host: string): string | undefined;
}

/** Parts of the URL that the client has requested. */
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

/** Maps URLs to sandboxes. Each sandbox has a path of the service and, if configured, an origin. */
export class Addressing {
  readonly #options: AddressingOptions;

  constructor(options: AddressingOptions) {
    this.#options = options;
  }

  /** The absolute URL of an agent for clients, without a slash at its end. */
  urlOf(sandbox: string): string {
    return this.#originOf(sandbox) ?? `${this.#options.publicUrl()}${pathOf(sandbox)}`;
  }

  /** The address in a request for a sandbox; undefined for a request to the service itself. */
  find(request: IncomingMessage): ProxyAddress | undefined {
    const { addresses, template } = this.#options;
    const path = request.url ?? '';
    const sandbox = addresses?.match(request.socket) ?? template?.match(request.headers.host ?? '');
    return sandbox === undefined ? parsePath(path) : { sandbox, path, prefix: '' };
  }

  /**
   * Parses a URL in the form of `urlOf`, optionally with a slash at its end; undefined for any
   * other text. `further` are origins of the service in addition to its public URL. No request is
   * sent to the URL: the result only names a sandbox, with a path of the service.
   */
  named(text: string, path: string, further: readonly string[] = []): ProxyAddress | undefined {
    const url = text.replace(/\/$/, '');
    const sandbox = this.#namedByPath(url, further) ?? this.#namedByOrigin(url);
    return sandbox === undefined ? undefined : { sandbox, path, prefix: pathOf(sandbox) };
  }

  /** Content-Security-Policy sources that permit requests and WebSockets to all sandboxes. */
  sources(): readonly string[] {
    const { publicUrl, template, addresses } = this.#options;
    const origins = [new URL(publicUrl()).origin, template?.source, addresses?.source];
    return origins
      .filter((origin) => origin !== undefined)
      .flatMap((origin) => [origin, origin.replace(/^http/, 'ws')]);
  }

  #namedByPath(url: string, further: readonly string[]): string | undefined {
    const start = [this.#options.publicUrl(), ...further].find((one) =>
      url.startsWith(`${one}/sandboxes/`),
    );
    const found = start === undefined ? undefined : parsePath(url.slice(start.length));
    // A URL with a longer path would name a path of the agent.
    return found?.path === '/' && url.endsWith(found.prefix) ? found.sandbox : undefined;
  }

  #namedByOrigin(url: string): string | undefined {
    const { addresses, template } = this.#options;
    const host = url.replace(/^https?:\/\//, '');
    const sandbox = addresses?.named(host) ?? template?.match(host);
    return sandbox !== undefined && this.#originOf(sandbox) === url ? sandbox : undefined;
  }

  seenBy({ sandbox, prefix }: ProxyAddress): SeenUrl {
    const url = (prefix === '' ? this.#originOf(sandbox) : undefined) ?? this.#options.publicUrl();
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

  #originOf(sandbox: string): string | undefined {
    const { addresses, template } = this.#options;
    return addresses?.urlOf(sandbox) ?? template?.urlOf(sandbox);
  }
}

const pathOf = (sandbox: string): string => `/sandboxes/${sandbox}/${agentPortName}`;
