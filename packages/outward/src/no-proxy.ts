import { BlockList, isIP } from 'node:net';

/** A host that is called, without brackets and without the dot of a root at its end. */
export interface Host {
  readonly name: string;
  readonly port: number;
}

/** Whether a host is called without a proxy. */
export type NoProxy = (host: Host) => boolean;

const familyOf = (address: string) => (isIP(address) === 6 ? 'ipv6' : 'ipv4');

/** Whether an address is in a list of addresses and ranges; false for a name. */
export const isListed = (list: BlockList, name: string): boolean =>
  isIP(name) !== 0 && list.check(name, familyOf(name));

/** Port of an entry, and the entry without it. A bare IPv6 address has no port. */
function parted(entry: string): { readonly name: string; readonly port: number | undefined } {
  const [, bracketed, bracketedPort] = /^\[([^\]]*)\](?::(\d{1,5}))?$/.exec(entry) ?? [];
  if (bracketed !== undefined)
    return { name: bracketed, port: bracketedPort === undefined ? undefined : +bracketedPort };
  const [, name, port] = /^([^:]*):(\d{1,5})$/.exec(entry) ?? [];
  return name === undefined || port === undefined
    ? { name: entry, port: undefined }
    : { name, port: +port };
}

/** The addresses of a range like 10.0.0.0/8. Undefined: the text is no range. */
function rangeOf(text: string): BlockList | undefined {
  const [, address = '', bits = ''] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const family = isIP(address);
  if (family === 0 || Number(bits) > (family === 6 ? 128 : 32)) return undefined;
  const list = new BlockList();
  list.addSubnet(address, Number(bits), familyOf(address));
  return list;
}

/** Undefined: the entry has a slash, and is no range. */
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
 * Reads NO_PROXY: entries separated by commas or white space. A name matches itself and all
 * names below it, also with a dot before it; `*.` before it leaves out the name itself. Addresses
 * and ranges like 10.0.0.0/8 match hosts that are addresses: names are not resolved. `*` matches
 * every host. A port behind an entry limits it to this port. Undefined: a range is malformed.
 */
export function noProxyOf(text: string): NoProxy | undefined {
  const entries = text.split(/[,\s]+/).filter((entry) => entry !== '');
  const matchers = entries.map(matcherOf);
  if (!matchers.every((matcher) => matcher !== undefined)) return undefined;
  return (host) => matchers.some((matches) => matches(host));
}
