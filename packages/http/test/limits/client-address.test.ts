import { Socket } from 'node:net';
import { isAddressRange, subscriberOf, trustedProxies } from '../../src/limits/client-address.ts';

const from = (remoteAddress: string, forwarded?: string) => ({
  socket: Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress }),
  headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
});

describe("a client's address", () => {
  it.each<[string, readonly string[], string, string | undefined, string]>([
    ['is that of the connection', [], '203.0.113.7', undefined, '203.0.113.7'],
    [
      'is not what the client says when no proxy is trusted',
      [],
      '203.0.113.7',
      '198.51.100.1',
      '203.0.113.7',
    ],
    [
      'is not what a client says that comes past the proxy',
      ['10.0.0.0/8'],
      '203.0.113.7',
      '198.51.100.1',
      '203.0.113.7',
    ],
    [
      'is what a trusted proxy has seen',
      ['10.0.0.0/8'],
      '10.1.2.3',
      '198.51.100.1',
      '198.51.100.1',
    ],
    [
      'is not what the client has put before that',
      ['10.0.0.0/8'],
      '10.1.2.3',
      '1.2.3.4, 198.51.100.1',
      '198.51.100.1',
    ],
    [
      'is found behind several proxies',
      ['10.0.0.0/8', '192.0.2.1'],
      '10.1.2.3',
      '1.2.3.4, 198.51.100.1, 192.0.2.1',
      '198.51.100.1',
    ],
    [
      'is the first proxy when there are only proxies',
      ['10.0.0.0/8'],
      '10.1.2.3',
      '10.9.9.9',
      '10.9.9.9',
    ],
    ['is the proxy when that has said nothing', ['10.0.0.0/8'], '10.1.2.3', undefined, '10.1.2.3'],
    ['is the proxy when what it says is none', ['10.0.0.0/8'], '10.1.2.3', 'unknown', '10.1.2.3'],
    [
      'is read without the port that some proxies add',
      ['loopback'],
      '::1',
      '198.51.100.1:4711',
      '198.51.100.1',
    ],
    ['is read without brackets', ['loopback'], '127.0.0.1', '[2001:db8::1]:443', '2001:db8::1'],
    [
      'of IPv4 in IPv6 is that of IPv4',
      ['10.0.0.0/8'],
      '::ffff:10.1.2.3',
      '198.51.100.1',
      '198.51.100.1',
    ],
    [
      'of IPv4 in IPv6 is that of IPv4, also as a proxy has written it',
      ['10.0.0.0/8'],
      '10.1.2.3',
      '[::ffff:c633:6401]:4711, ::ffff:10.9.9.9',
      '198.51.100.1',
    ],
    ['of a connection that is gone is empty', ['10.0.0.0/8'], '', '198.51.100.1', ''],
  ])('%s', (_case, trusted, remote, forwarded, expected) => {
    expect(trustedProxies(trusted).clientAddress(from(remote, forwarded))).toBe(expected);
  });

  it.each([
    ['198.51.100.1', '198.51.100.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::9', '2001:db8:1:2::/64'],
    ['2001:DB8:0001:2::9', '2001:db8:1:2::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['', ''],
  ])('%s counts as %s', (address, subscriber) => {
    expect(subscriberOf(address)).toBe(subscriber);
  });
});

it.each([
  ['10.0.0.0/8', true],
  ['10.1.2.3', true],
  ['fd00::/8', true],
  ['uniquelocal', true],
  ['0.0.0.0/0', false],
  ['10.0.0.0/33', false],
  ['10.0.0.0/8/8', false],
  ['10.0.0.0/', false],
  ['10.0.0', false],
  ['everywhere', false],
])('%s is a range of addresses: %p', (text, expected) => {
  expect(isAddressRange(text)).toBe(expected);
});
