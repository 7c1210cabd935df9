import { readArchiveToolConfig } from '../../../src/config/archive.ts';
import { readGatewayConfig, readOperatorConfig } from '../../../src/config/cluster.ts';
import { proxiesOf, noProxyTextOf } from '../../../src/config/outward.ts';
import { readUpConfig } from '../../../src/config/up.ts';

const required = { MASTER_KEY_FILES: 'key' };
const errorOf = (environment: NodeJS.ProcessEnv): string => {
  try {
    readGatewayConfig({ ...required, ...environment });
    return '';
  } catch (error) {
    return (error as Error).message;
  }
};

it.each([readGatewayConfig, readOperatorConfig, readArchiveToolConfig, readUpConfig])(
  '%p reads the proxies and the file of certificates',
  (read) => {
    const config = read({
      ...required,
      HTTPS_PROXY: 'http://proxy.test:3128',
      HTTP_PROXY: 'proxy.test',
      NO_PROXY: '.svc',
      TRUST_FILE: '/ca.crt',
    });
    expect(config.TRUST_FILE).toBe('/ca.crt');
    expect(proxiesOf(config)).toMatchObject({
      https: { origin: 'http://proxy.test:3128' },
      http: { origin: 'http://proxy.test' },
    });
    expect(proxiesOf(config).noProxy({ name: 'store.agents.svc', port: 443 })).toBe(true);
  },
);

it('takes a variable in lower case before its twin, unless it is empty', () => {
  const config = readGatewayConfig({
    ...required,
    https_proxy: 'http://lower.test',
    HTTPS_PROXY: 'http://upper.test',
    http_proxy: '',
    HTTP_PROXY: 'http://upper.test',
    no_proxy: 'a.test',
    NO_PROXY: 'b.test',
  });
  expect(proxiesOf(config)).toMatchObject({
    https: { origin: 'http://lower.test' },
    http: { origin: 'http://upper.test' },
  });
  expect(noProxyTextOf(config)).toBe('a.test');
});

it('has no proxy by default, and none of https by HTTP_PROXY', () => {
  const none = { https: undefined, http: undefined };
  expect(proxiesOf(readGatewayConfig(required))).toMatchObject(none);
  const config = readGatewayConfig({ ...required, HTTP_PROXY: 'http://proxy.test' });
  expect(proxiesOf(config).https).toBeUndefined();
});

it.each(['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy'])(
  'refuses a bad %s without its value',
  (name) => {
    const message = errorOf({ [name]: 'socks5://us:s3cret@proxy.test:1080' });
    expect(message).toMatch(
      new RegExp(`^${name}: must be the http or https URL of a proxy like http://proxy`),
    );
    expect(message).not.toContain('s3cret');
    expect(errorOf({ [name]: 's3cret proxy' })).not.toContain('s3cret');
  },
);

it('refuses a malformed range of NO_PROXY', () => {
  expect(errorOf({ NO_PROXY: '.svc,10.0.0.0/99' })).toBe(
    'NO_PROXY: must be names, addresses and ranges like example.com, 192.0.2.1 and 10.0.0.0/8, separated by commas, not ".svc,10.0.0.0/99"',
  );
});
