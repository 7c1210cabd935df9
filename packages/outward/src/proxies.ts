import { BlockList } from 'node:net';
import { isListed, type Host, type NoProxy } from './no-proxy.ts';

/** A forward proxy. */
export interface ProxyServer {
  /** Scheme, host and port, without credentials: for logs. */
  readonly origin: string;
  /** Value of the Proxy-Authorization header, a secret; undefined for a URL without a user. */
  readonly authorization: string | undefined;
}

/** The proxies of a process. */
export interface Proxies {
  /** Proxy of https URLs; undefined: none. */
  readonly https: ProxyServer | undefined;
  /** Proxy of http URLs; undefined: none. */
  readonly http: ProxyServer | undefined;
  readonly noProxy: NoProxy;
}

export const withoutProxies: Proxies = {
  https: undefined,
  http: undefined,
  noProxy: () => false,
};

/** A text without a scheme is a URL of http, as curl has it. */
export const withScheme = (text: string): string =>
  /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;

/** An http or https URL of a proxy with at most user, password, host and port; else undefined. */
export function proxyServerOf(text: string): ProxyServer | undefined {
  const url = URL.parse(withScheme(text));
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return undefined;
  if (url.pathname !== '/' || `${url.search}${url.hash}` !== '') return undefined;
  try {
    const user = decodeURIComponent(url.username);
    const password = decodeURIComponent(url.password);
    const isNamed = `${user}${password}` !== '';
    return {
      origin: url.origin,
      authorization: isNamed
        ? `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
        : undefined,
    };
  } catch {
    return undefined;
  }
}

/**
 * This machine, link-local addresses, and the addresses at which AWS serves instances and
 * containers: from the place of a proxy they are others, and credentials of this machine would go
 * there.
 */
const ownAddresses = new BlockList();
ownAddresses.addSubnet('127.0.0.0', 8);
ownAddresses.addAddress('0.0.0.0');
ownAddresses.addSubnet('169.254.0.0', 16);
ownAddresses.addAddress('::1', 'ipv6');
ownAddresses.addAddress('::', 'ipv6');
ownAddresses.addSubnet('fe80::', 10, 'ipv6');
ownAddresses.addSubnet('fd00:ec2::', 32, 'ipv6');

/** Services of the cluster have the same names in every cluster, and no proxy outside finds them. */
const ownNames = /(?:^|\.)(?:localhost|svc|cluster\.local)$/;

const isOwn = (name: string): boolean => ownNames.test(name) || isListed(ownAddresses, name);

const hostOf = ({ hostname, port, protocol }: URL): Host => ({
  name: hostname.replace(/^\[(.*)\]$/, '$1').replace(/(.)\.$/, '$1'),
  port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
});

/** The proxy by which a URL is called. Undefined: it is called directly. */
export function proxyOf(proxies: Proxies, url: URL): ProxyServer | undefined {
  const proxy = url.protocol === 'https:' ? proxies.https : proxies.http;
  if (proxy === undefined) return undefined;
  const host = hostOf(url);
  return isOwn(host.name) || proxies.noProxy(host) ? undefined : proxy;
}
