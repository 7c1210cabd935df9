import { noProxyOf } from '../src/proxies.ts';

const matches = (text: string, name: string, port = 443) => noProxyOf(text)?.({ name, port });

it.each([
  ['git.example.com', 'git.example.com', true],
  ['git.example.com', 'GIT.example.com'.toLowerCase(), true],
  ['GIT.Example.com', 'git.example.com', true],
  ['example.com', 'git.example.com', true],
  ['.example.com', 'git.example.com', true],
  ['.example.com', 'example.com', true],
  ['*.example.com', 'git.example.com', true],
  ['*.example.com', 'example.com', false],
  ['example.com.', 'git.example.com', true],
  ['example.com', 'notexample.com', false],
  ['example.com', 'example.com.evil.test', false],
  ['a.test,b.test', 'b.test', true],
  [' a.test ,\tb.test c.test', 'c.test', true],
  [',,a.test,', 'b.test', false],
  ['*', 'anything.test', true],
  ['none.test, *', 'anything.test', true],
  ['', 'anything.test', false],
  ['10.0.0.0/8', '10.1.2.3', true],
  ['10.0.0.0/8', '11.1.2.3', false],
  ['10.0.0.0/8', '10.1.2.3.example.com', false],
  ['10.0.0.0/8', '::ffff:a01:203', true],
  ['10.1.2.3', '10.1.2.3', true],
  ['10.1.2.3', '110.1.2.3', false],
  ['2.3', '10.1.2.3', false],
  ['10.1.2.3/32', '10.1.2.4', false],
  ['0.0.0.0/0', '192.0.2.1', true],
  ['0.0.0.0/0', '2001:db8::1', false],
  ['fd00::/8', 'fd12::1', true],
  ['fd00::/8', '2001:db8::1', false],
  ['2001:DB8:0:0::1', '2001:db8::1', true],
  ['[2001:db8::1]', '2001:db8::1', true],
])('NO_PROXY %j for %s: %s', (text, name, expected) => {
  expect(matches(text, name)).toBe(expected);
});

it.each([
  ['example.com:443', 'git.example.com', 443, true],
  ['example.com:443', 'git.example.com', 8443, false],
  ['*:80', 'git.example.com', 80, true],
  ['*:80', 'git.example.com', 443, false],
  ['10.1.2.3:9000', '10.1.2.3', 9000, true],
  ['10.1.2.3:9000', '10.1.2.3', 443, false],
  ['[2001:db8::1]:9000', '2001:db8::1', 9000, true],
  ['[2001:db8::1]:9000', '2001:db8::1', 443, false],
])('NO_PROXY %j for %s at port %i: %s', (text, name, port, expected) => {
  expect(matches(text, name, port)).toBe(expected);
});

it.each([
  '10.0.0.0/33',
  '10.0.0/8',
  'fd00::/129',
  'example.com/24',
  'a.test,10.0.0.0/',
  'http://x/',
])('NO_PROXY %j is refused, because its range is malformed', (text) => {
  expect(noProxyOf(text)).toBeUndefined();
});
