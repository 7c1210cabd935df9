import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import { addressRanges } from '../../config/address-range.ts';

/** Without what some proxies add, a port, and without IPv6 around an IPv4 address. */
const plain = (text: string): string =>
  text
    .trim()
    .replace(/^\[(.*)\](:\d+)?$/, '$1')
    .replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, '$1')
    .replace(/^::ffff:(?=\d+\.)/i, '');

export type ClientAddress = (request: Pick<IncomingMessage, 'headers' | 'socket'>) => string;

/** Whether an address is in one of these ranges, as `addressRanges` takes them. */
export function isTrusted(trusted: readonly string[]): (address: string) => boolean {
  const proxies = new BlockList();
  for (const { address, prefix, family } of trusted.flatMap((text) => addressRanges(text) ?? []))
    proxies.addSubnet(address, prefix, family);
  return (address) => {
    const family = isIP(address);
    return family !== 0 && proxies.check(address, family === 4 ? 'ipv4' : 'ipv6');
  };
}

/**
 * The address that a request comes from. `X-Forwarded-For` is believed only as far as trusted proxies have written it: read from its
 * end, the first address that is none of theirs is the client's. What a client has put there itself stands before that.
 * @param trusted Addresses and ranges, as `addressRanges` takes them.
 */
export function clientAddressBehind(trusted: readonly string[]): ClientAddress {
  const isProxy = isTrusted(trusted);
  return ({ headers, socket }) => {
    let address = plain(socket.remoteAddress ?? '');
    if (trusted.length === 0) return address;
    const forwarded = String(headers['x-forwarded-for'] ?? '').split(',');
    for (let next = forwarded.pop(); next !== undefined && isProxy(address); next = forwarded.pop()) {
      const before = plain(next);
      if (isIP(before) === 0) break;
      address = before;
    }
    return address;
  };
}

/** Whoever has one IPv6 address usually has all of its /64, so these count as one. */
export function subscriberOf(address: string): string {
  if (isIP(address) !== 6) return address;
  const [head = '', tail = ''] = address.toLowerCase().split('%', 1)[0]?.split('::') ?? [];
  const left = head.split(':').filter((group) => group !== '');
  const right = tail.split(':').filter((group) => group !== '');
  const missing = address.includes('::') ? Math.max(0, 8 - left.length - right.length) : 0;
  const groups = [...left, ...Array.from({ length: missing }, () => '0'), ...right];
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}
