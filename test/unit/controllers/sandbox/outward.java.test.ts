import {
  javaEnvironment,
  proxyEnvironment,
  type SandboxProxy,
} from '../../../../src/controllers/sandbox/outward.ts';

interface Wish {
  /** Variables of the template. */
  readonly env?: Readonly<Record<string, string>>;
  readonly proxy?: SandboxProxy;
  readonly trustStore?: string;
  readonly callbackUrls?: readonly string[];
}

/** Options that Java gets. Undefined: the variable stays as the template has it, or absent. */
function optionsOf({ env = {}, proxy, trustStore, callbackUrls = [] }: Wish): string | undefined {
  const container = { env: Object.entries(env).map(([name, value]) => ({ name, value })) };
  const proxies = proxyEnvironment(container, { proxy, callbackUrls });
  const variables = javaEnvironment(container, { proxies, trustStore });
  expect(variables.map(({ name }) => name)).toEqual(
    variables.length === 0 ? [] : ['JAVA_TOOL_OPTIONS'],
  );
  return variables[0]?.value;
}

const proxy = { https: 'http://proxy:3128', noProxy: [] };
const https = '-Dhttps.proxyHost=proxy -Dhttps.proxyPort=3128';
const loopback = 'localhost|*.localhost|127.0.0.1|[::1]';
const hosts = `-Dhttp.nonProxyHosts=${loopback}`;
const maven = '-Daether.connector.http.useSystemProperties=true';
const trustStore = '/trust/cacerts';
const trusted = '-Djavax.net.ssl.trustStore=/trust/cacerts';
const java = (value: string) => ({ JAVA_TOOL_OPTIONS: value });

describe("the options of Java's programs", () => {
  it.each<[string, Wish, string | undefined]>([
    ['are none without a proxy and certificates', { callbackUrls: ['http://gateway'] }, undefined],
    ['are those of a template alone there', { env: java('-Xmx1g') }, undefined],
    [
      'name the file with the certificates, without a password, which would be asked of others',
      { trustStore },
      trusted,
    ],
    ['name the proxy of one scheme', { proxy }, `${https} ${hosts} ${maven}`],
    [
      'name the proxies of both schemes',
      { proxy: { ...proxy, http: 'http://other' } },
      `${https} -Dhttp.proxyHost=other -Dhttp.proxyPort=80 ${hosts} ${maven}`,
    ],
    [
      'name an address of IPv6 without brackets',
      { proxy: { ...proxy, https: 'http://[fd00::3]:3128' } },
      `-Dhttps.proxyHost=fd00::3 -Dhttps.proxyPort=3128 ${hosts} ${maven}`,
    ],
    [
      'name no proxy that is reached by TLS',
      { proxy: { ...proxy, https: 'https://proxy:3128' } },
      undefined,
    ],
    [
      'name the gateway as a host without a proxy',
      { proxy, callbackUrls: ['http://gateway.agents.svc:8083'] },
      `${https} -Dhttp.nonProxyHosts=gateway.agents.svc|*.gateway.agents.svc|gateway.agents|*.gateway.agents|${loopback} ${maven}`,
    ],
    [
      'precede those of the template, so that Java prefers these',
      { env: java('-Xmx1g -Djavax.net.ssl.trustStore=/own'), proxy, trustStore },
      `${trusted} ${https} ${hosts} ${maven} -Xmx1g -Djavax.net.ssl.trustStore=/own`,
    ],
    ['are none where the template wants none', { env: java(''), proxy, trustStore }, undefined],
    [
      'name no port beside a proxy of the template',
      { env: java('-Dhttps.proxyHost=own'), proxy: { ...proxy, http: 'http://proxy:3129' } },
      `-Dhttp.proxyHost=proxy -Dhttp.proxyPort=3129 ${hosts} ${maven} -Dhttps.proxyHost=own`,
    ],
    [
      'complete the hosts of the template',
      { env: java('-Dhttp.nonProxyHosts=own|localhost -Xmx1g'), proxy },
      `${https} ${maven} -Dhttp.nonProxyHosts=own|localhost|*.localhost|127.0.0.1|[::1] -Xmx1g`,
    ],
    [
      'complete hosts in quotes',
      { env: java('-Dhttp.nonProxyHosts="own"'), proxy },
      `${https} ${maven} -Dhttp.nonProxyHosts="own|${loopback}"`,
    ],
    [
      'leave these hosts as they are without a proxy',
      { env: java('-Dhttp.nonProxyHosts=own'), trustStore },
      `${trusted} -Dhttp.nonProxyHosts=own`,
    ],
    [
      'follow the variable of the template where it names another proxy',
      { env: { https_proxy: 'http://own:1' }, proxy, trustStore },
      trusted,
    ],
    ['name no proxy where no host has one', { env: { NO_PROXY: '*' }, proxy }, undefined],
  ])('%s', (_sentence, wish, expected) => {
    expect(optionsOf(wish)).toBe(expected);
  });

  it.each<[string, string, string]>([
    ['a host, and those below it', 'Example.com', 'example.com|*.example.com|'],
    ['a domain', '.example.com', '*.example.com|'],
    ['a domain with a star', '*.example.com', '*.example.com|'],
    ['an address', '203.0.113.3', '203.0.113.3|'],
    ['an address of IPv6', 'fd00::7', '[fd00::7]|'],
    ['a range by the numbers that it leaves', '10.0.0.0/8,192.168.0.0/16', '10.*|192.168.*|'],
    ['the smallest of these ranges', '203.0.113.0/24', '203.0.113.*|'],
    ['no other range', '172.16.0.0/12,fd00::/8,999.0.0.0/8', ''],
    ['no host with a port', 'example.com:8080', ''],
    ['no star among others', '*,a', 'a|*.a|'],
    ['nothing that Java reads as options of its own', '"a,$(HOSTS),b|c,d\\e', ''],
    ['each host once', 'A,a', 'a|*.a|'],
  ])('have as a pattern %s', (_sentence, noProxy, patterns) => {
    const made = optionsOf({ env: { NO_PROXY: noProxy }, proxy });
    expect(made).toBe(`${https} -Dhttp.nonProxyHosts=${patterns}${loopback} ${maven}`);
  });

  it('stay where the template has them from elsewhere', () => {
    const valueFrom = { configMapKeyRef: { name: 'java', key: 'options' } };
    const container = { env: [{ name: 'JAVA_TOOL_OPTIONS', valueFrom }] };
    const proxies = proxyEnvironment(container, { proxy, callbackUrls: [] });
    expect(javaEnvironment(container, { proxies, trustStore })).toEqual([]);
  });
});
