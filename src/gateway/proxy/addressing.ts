import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/**
 * The address in a request for the agent of a sandbox: the sandbox, and a path. A request never
 * names the host that it is forwarded to.
 */
export interface ProxyAddress {
  readonly sandbox: string;
  /** The path for the agent, with the query, exactly as the client has sent it. */
  readonly path: string;
  /** The client's path before `path`: empty where the sandbox has an origin of its own. */
  readonly prefix: string;
}

/** Name under which clients know the port of an agent, the only one that a sandbox exposes. */
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

/** Whether the agent answers the request without a key. The path must equal one of `openPaths`. */
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
 * A host name for the agent of each sandbox, in the form
 * `https://{sandbox}-{port}.agents.example.com`. Both are in the first label, so that one wildcard
 * covers all host names.
 */
export class HostTemplate {
  /** A source of a content security policy that all origins match. */
  readonly source: string;
  readonly #start: string;
  readonly #end: string;
  readonly #hostStart: string;
  readonly #hostEnd: string;

  /** Throws where the template has another form. */
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

  /** An origin. Undefined for a sandbox whose name fits into no label. */
  urlOf(sandbox: string): string | undefined {
    const host = `${this.#hostStart}${sandbox}${this.#hostEnd}`;
    return !sandboxLabel.test(sandbox) || host.indexOf('.') > maxLabelLength
      ? undefined
      : `${this.#start}${sandbox}${this.#hostEnd}${this.#end}`;
  }

  /** The sandbox that a Host header names, whatever its port number. */
  match(host: string): string | undefined {
    const name = host.toLowerCase().replace(/\.?(?::\d*)?$/, '');
    if (!name.startsWith(this.#hostStart) || !name.endsWith(this.#hostEnd)) return undefined;
    const sandbox = name.slice(this.#hostStart.length, -this.#hostEnd.length);
    return sandboxLabel.test(sandbox) ? sandbox : undefined;
  }
}

interface Origins {
  urlOf(sandbox: string): string | undefined;
  /** A source of a content security policy that all of these origins match. */
  readonly source: string;
}

/** Origins that are identified by the connection of a request. */
export interface AddressOrigins extends Origins {
  /** The sandbox whose origin the connection is for. */
  match(socket: Socket): string | undefined;
  /** The sandbox that has this host and port number. */
  named(host: string): string | undefined;
}

/** Form of the URL in a client's request. */
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

/** Maps URLs to sandboxes, which have a path of the service, and an origin if configured. */
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
   * The address in a text of the form of `urlOf`, optionally with a slash at its end; undefined for
   * any other text. `further` are the origins of the service besides its public URL. No request is
   * sent to the text: the address names a sandbox, in the form of a path of the service.
   */
  named(text: string, path: string, further: readonly string[] = []): ProxyAddress | undefined {
    const url = text.replace(/\/$/, '');
    const sandbox = this.#namedByPath(url, further) ?? this.#namedByOrigin(url);
    return sandbox === undefined ? undefined : { sandbox, path, prefix: pathOf(sandbox) };
  }

  /** Sources of a content security policy for requests and WebSockets to all sandboxes. */
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
    // A longer path would be a path of the agent.
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
