import { BlockList, isIPv6 } from 'node:net';

/**
 * Addresses that belong to no peer in a network: unspecified, link-local and others with the
 * metadata services of clouds, multicast.
 */
const reserved = new BlockList();
reserved.addSubnet('0.0.0.0', 8, 'ipv4');
reserved.addSubnet('169.254.0.0', 16, 'ipv4');
reserved.addSubnet('224.0.0.0', 3, 'ipv4');
reserved.addAddress('::', 'ipv6');
reserved.addSubnet('fe80::', 10, 'ipv6');
reserved.addSubnet('ff00::', 8, 'ipv6');
reserved.addAddress('fd00:ec2::254', 'ipv6');
reserved.addAddress('fd20:ce::254', 'ipv6');

/** Whether no request may be forwarded to this IP address. */
export const isReservedAddress = (address: string): boolean =>
  reserved.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
