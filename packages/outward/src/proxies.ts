import { BlockList, isIP } from 'node:net';

/** Host of a requested URL. `name` has no brackets of IPv6 and no dot at its end. */
interface Host {
  readonly name: string;
  readonly port: number;
}

type NoProxy = (host: Host) => boolean;

const familyOf = (address: string) => (isIP(address) === 6 ? 'ipv6' : 'ipv4');

const isListed = (list: BlockList, name: string): boolean =>
  isIP(name) !== 0 && list.check(name, familyOf(name));

/** Splits an entry of NO_PROXY into name and port. An IPv6 address without brackets has no port. */
function parted(entry: string): { readonly name: string; readonly port: number | undefined } {
  const [, bracketed, bracketedPort] = /^\[([^\]]*)\](?::(\d{1,5}))?$/.exec(entry) ?? [];
  if (bracketed !== undefined)
    return { name: bracketed, port: bracketedPort === undefined ? undefined : +bracketedPort };
  const [, name, port] = /^([^:]*):(\d{1,5})$/.exec(entry) ?? [];
  return name === undefined || port === undefined
    ? { name: entry, port: undefined }
    : { name, port: +port };
}

/** Returns the addresses of a CIDR range like 10.0.0.0/8; undefined if the text is no range. */
function rangeOf(text: string): BlockList | undefined {
  const [, address = '', bits = ''] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const family = isIP(address);
  if (family === 0 || Number(bits) > (family === 6 ? 128 : 32)) return undefined;
  const list = new BlockList();
  list.addSubnet(address, Number(bits), familyOf(address));
  return list;
}

/** Parses an entry of NO_PROXY; undefined if it has a slash but is no CIDR range. */
function matcherOf(entry: string): NoProxy | undefined {
  const { name: given, port } = parted(entry.toLowerCase());
  const only = (matches: (name: string) => boolean): NoProxy => {
    return (host) => (port === undefined || port === host.port) && matches(host.name);
  };
  if (given === '*') return only(() => true);
  if (given.includes('/')) {
    const range = rangeOf(given);
    return range && only((name) => isListed(range, name));
  }
  if (isIP(given) !== 0) {
    const list = new BlockList();
    list.addAddress(given, familyOf(given));
    return only((name) => isListed(list, name));
  }
  const suffix = given.replace(/^\*?\./, '').replace(/\.$/, '');
  const isWithItself = !given.startsWith('*');
  return only(
    (name) =>
      isIP(name) === 0 && ((isWithItself && name === suffix) || name.endsWith(`.${suffix}`)),
  );
}

/**
 * Parses NO_PROXY: entries separated by commas or white space. `example.com` and `.example.com`
 * match this name and its subdomains, `*.example.com` only the subdomains. Addresses and ranges
 * like 10.0.0.0/8 match hosts that are addresses: names are not resolved. `*` matches every host.
 * An entry with a port matches only this port. Returns undefined if a range is malformed.
 */
export function noProxyOf(text: string): NoProxy | undefined {
  const entries = text.split(/[,\s]+/).filter((entry) => entry !== '');
  const matchers = entries.map(matcherOf);
  if (!matchers.every((matcher) => matcher !== undefined)) return undefined;
  return (host) => matchers.some((matches) => matches(host));
}

export interface ProxyServer {
  /** Scheme, host and port, without credentials, so that logs may contain the origin. */
  readonly origin: string;
  /** Value of the Proxy-Authorization header, a secret; undefined for a URL without a user. */
  readonly authorization: string | undefined;
}

export interface Proxies {
  readonly https: ProxyServer | undefined;
  readonly http: ProxyServer | undefined;
  readonly noProxy: NoProxy;
}

export const withoutProxies: Proxies = { https: undefined, http: undefined, noProxy: () => false };

/** Adds `http://` to a text without a scheme, as curl does. */
export const withScheme = (text: string): string =>
  /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;

/** Parses the http(s) URL of a proxy; undefined if it is invalid, or has a path, query or hash. */
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

/** Loopback, link-local and cloud metadata addresses: no proxy may see credentials from them. */
const ownAddresses = new BlockList();
ownAddresses.addSubnet('127.0.0.0', 8);
ownAddresses.addAddress('0.0.0.0');
ownAddresses.addSubnet('169.254.0.0', 16);
ownAddresses.addAddress('::1', 'ipv6');
ownAddresses.addAddress('::', 'ipv6');
ownAddresses.addSubnet('fe80::', 10, 'ipv6');
ownAddresses.addSubnet('fd00:ec2::', 32, 'ipv6');

/** Names that a proxy does not resolve, or resolves to services of another cluster. */
const ownNames = /(?:^|\.)(?:localhost|svc|cluster\.local)$/;

const hostOf = ({ hostname, port, protocol }: URL): Host => ({
  name: hostname.replace(/^\[(.*)\]$/, '$1').replace(/(.)\.$/, '$1'),
  port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
});

/** Returns the proxy for a URL; undefined if requests for the URL use no proxy. */
export function proxyOf(proxies: Proxies, url: URL): ProxyServer | undefined {
  const proxy = url.protocol === 'https:' ? proxies.https : proxies.http;
  if (proxy === undefined) return undefined;
  const host = hostOf(url);
  const isOwn = ownNames.test(host.name) || isListed(ownAddresses, host.name);
  return isOwn || proxies.noProxy(host) ? undefined : proxy;
}
