import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { withoutMapping } from '@conversation-operator/base/addresses';
import { compile } from 'proxy-addr';

/** Removes the port that some proxies add, and the IPv6 form of an IPv4 address. */
const plain = (text: string): string =>
  withoutMapping(
    text
      .trim()
      .replace(/^\[(.*)\](:\d+)?$/, '$1')
      .replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, '$1'),
  );

type Carried = Pick<IncomingMessage, 'headers' | 'socket'>;
export type ClientAddress = (request: Carried) => string;

export interface TrustedProxies {
  /**
   * Returns the client's address: the last entry of `X-Forwarded-For` that is not a trusted proxy.
   * Ignores earlier entries, which the client may have forged.
   */
  readonly clientAddress: ClientAddress;
  readonly has: (address: string) => boolean;
  /** Whether a connection comes from a trusted proxy, which carries requests of many clients. */
  readonly carries: (socket: Carried['socket']) => boolean;
}

/** Accepts an address, a range like 10.0.0.0/8, or a name: loopback, linklocal, uniquelocal. */
export function isAddressRange(text: string): boolean {
  try {
    compile(text);
    return true;
  } catch {
    return false;
  }
}

/** @param trusted Addresses and ranges that `isAddressRange` accepts. */
export function trustedProxies(trusted: readonly string[]): TrustedProxies {
  const isTrusted = compile([...trusted]);
  const has = (address: string): boolean => isTrusted(address, 0);
  const clientAddress: ClientAddress = ({ headers, socket }) => {
    let address = plain(socket.remoteAddress ?? '');
    if (trusted.length === 0) return address;
    const forwarded = String(headers['x-forwarded-for'] ?? '').split(',');
    for (let next = forwarded.pop(); next !== undefined && has(address); next = forwarded.pop()) {
      const before = plain(next);
      if (isIP(before) === 0) break;
      address = before;
    }
    return address;
  };
  return { clientAddress, has, carries: (socket) => has(plain(socket.remoteAddress ?? '')) };
}

/** Returns the /64 of an IPv6 address, which one client owns as a whole, or the IPv4 address. */
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
