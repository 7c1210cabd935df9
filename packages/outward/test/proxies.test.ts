import { noProxyOf, proxyOf, proxyServerOf } from '../src/proxies.ts';

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;

describe('the URL of a proxy', () => {
  it.each([
    ['http://proxy.test:3128', 'http://proxy.test:3128', undefined],
    ['proxy.test:3128', 'http://proxy.test:3128', undefined],
    ['https://proxy.test', 'https://proxy.test', undefined],
    ['http://[2001:db8::1]:3128/', 'http://[2001:db8::1]:3128', undefined],
    ['http://user:p%40ss@proxy.test:3128', 'http://proxy.test:3128', basic('user:p@ss')],
    ['http://user@proxy.test:3128', 'http://proxy.test:3128', basic('user:')],
  ])('%s is that of %s', (text, origin, authorization) => {
    expect(proxyServerOf(text)).toEqual({ origin, authorization });
  });

  it.each([
    ...['', 'http://', 'socks5://proxy.test:1080', 'ftp://proxy.test', 'http://proxy.test/path'],
    ...['http://proxy.test/?a=b', 'http://proxy.test:99999', 'http://us%zzer:x@proxy.test'],
  ])('%j is none', (text) => {
    expect(proxyServerOf(text)).toBeUndefined();
  });
});

describe('the proxy of a URL', () => {
  const https = { origin: 'http://secure.test:3128', authorization: undefined };
  const http = { origin: 'http://plain.test:3128', authorization: undefined };
  const noProxy = noProxyOf('inside.test,10.0.0.0/8,other.test:8443') ?? (() => false);
  const both = { https, http, noProxy };

  it.each([
    ['https://git.test/a', both, https],
    ['http://git.test/a', both, http],
    ['https://git.test/a', { ...both, https: undefined }, undefined],
    ['http://git.test/a', { ...both, http: undefined }, undefined],
    ['https://a.inside.test/', both, undefined],
    ['https://inside.test./', both, undefined],
    ['https://10.1.2.3:9000/', both, undefined],
    ['https://[::ffff:10.1.2.3]:9000/', both, undefined],
    ['https://11.1.2.3:9000/', both, https],
    ['https://other.test:8443/', both, undefined],
    ['https://other.test/', both, https],
    ['https://[2001:db8::1]/', both, https],
    ['https://store.svc.example/', both, https],
  ])('%s', (url, proxies, expected) => {
    expect(proxyOf(proxies, new URL(url))).toBe(expected);
  });

  it.each([
    'http://169.254.169.254/latest/api/token',
    'http://169.254.170.2/v2/credentials',
    'http://169.254.170.23/v1/credentials',
    'http://[fd00:ec2::23]/v1/credentials',
    'http://[fd00:ec2::254]/latest/api/token',
    'http://[fe80::1]/',
    'http://minio.store.svc:9000/',
    'https://minio.store.svc.cluster.local/',
    'http://localhost:1/',
    'http://a.localhost:1/',
    'https://127.0.0.1:1/',
    'https://127.9.9.9:1/',
    'https://[::1]:1/',
    'https://[::ffff:127.0.0.1]:1/',
    'http://2130706433/',
    'http://0.0.0.0:1/',
  ])('%s has none, whatever NO_PROXY says', (url) => {
    expect(proxyOf({ https, http, noProxy: () => false }, new URL(url))).toBeUndefined();
  });
});
