import { isIP } from 'node:net';

/** Ranges that have a name, in the words of common proxies' settings. */
const named: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.0/8', '::1/128'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
};

export interface AddressRange {
  readonly address: string;
  readonly prefix: number;
  readonly family: 'ipv4' | 'ipv6';
}

/** An address, a range like 10.0.0.0/8, or the name of some; undefined for anything else. */
export function addressRanges(text: string): readonly AddressRange[] | undefined {
  const ranges = named[text];
  if (ranges !== undefined) return ranges.flatMap((range) => addressRanges(range) ?? []);
  const [address = '', prefix, ...rest] = text.split('/');
  const bits = { 0: undefined, 4: 32, 6: 128 }[isIP(address)];
  if (bits === undefined || rest.length > 0) return undefined;
  const length =
    prefix === undefined ? bits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.NaN;
  return length <= bits
    ? [{ address, prefix: length, family: bits === 32 ? 'ipv4' : 'ipv6' }]
    : undefined;
}
