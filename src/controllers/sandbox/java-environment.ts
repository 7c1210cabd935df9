import { isIP } from 'node:net';
import type { V1Container } from '@kubernetes/client-node';
import type { Wire } from '@conversation-operator/kube/object';

type Container = Pick<Wire<V1Container>, 'env'>;
type Variable = NonNullable<Container['env']>[number];

export interface JavaEnvironmentOptions {
  /** Variables about proxies that the container gets beside those of its template. */
  readonly proxies: readonly Variable[];
  /** File with the certificates that Java's programs trust. Absent: those that Java has. */
  readonly trustStore?: string | undefined;
}

/** Every Java virtual machine takes options from this variable, and prints them on stderr. */
const variableName = 'JAVA_TOOL_OPTIONS';

const schemes = ['https', 'http'] as const;

/** Maven 3.9 follows Java's proxy with this option alone. Other versions ignore the option. */
const mavenFollowsJava = '-Daether.connector.http.useSystemProperties=true';

/**
 * Java's patterns for an entry of NO_PROXY. A pattern is a host with a star at its start or at its
 * end, so an entry with a port has none, nor has a range that ends within a number of its address.
 */
function patternsOf(entry: string): readonly string[] {
  if (isIP(entry) === 6) return [`[${entry}]`];
  if (isIP(entry) === 4) return [entry];
  const [, address = '', bits] = /^([\d.]+)\/(8|16|24)$/.exec(entry) ?? [];
  if (bits !== undefined && isIP(address) === 4)
    return [`${address.split('.', Number(bits) / 8).join('.')}.*`];
  const [, dot, name] = /^(\*?\.)?([\w-][\w.-]*)$/.exec(entry) ?? [];
  if (name === undefined) return [];
  return dot === undefined ? [name, `*.${name}`] : [`*.${name}`];
}

const ownHosts = /-Dhttp\.nonProxyHosts=["']?([^\s"']*)/;

/** The options of a template with these patterns added to its hosts without a proxy. */
const withPatterns = (own: string, patterns: readonly string[]): string =>
  own.replace(ownHosts, (option, list: string) => {
    const present = new Set(list.split('|'));
    return [option, ...patterns.filter((pattern) => !present.has(pattern))].join('|');
  });

/**
 * Options for the proxies among these variables, before the own options of the template. Java
 * reaches no proxy by TLS, so there are none for such a proxy.
 */
function proxyOptions(proxies: readonly Variable[], own: string): readonly string[] {
  const valueOf = (wanted: string): string =>
    proxies.find(({ name }) => name === wanted)?.value ?? '';
  const hosts = valueOf('NO_PROXY').trim().toLowerCase();
  const found = schemes.flatMap((scheme) => {
    const url = URL.parse(valueOf(`${scheme.toUpperCase()}_PROXY`));
    return url?.protocol === 'http:' ? [{ scheme, url }] : [];
  });
  if (found.length === 0 || hosts === '*') return [own];
  const patterns = [...new Set(hosts.split(/[\s,]+/).flatMap(patternsOf))];
  return [
    ...found
      .filter(({ scheme }) => !own.includes(`-D${scheme}.proxyHost=`))
      .flatMap(({ scheme, url: { hostname, port } }) => [
        `-D${scheme}.proxyHost=${hostname.replace(/^\[(.*)\]$/, '$1')}`,
        `-D${scheme}.proxyPort=${port === '' ? '80' : port}`,
      ]),
    ...(ownHosts.test(own) ? [] : [`-Dhttp.nonProxyHosts=${patterns.join('|')}`]),
    mavenFollowsJava,
    withPatterns(own, patterns),
  ];
}

/**
 * The variable by which Java's programs, which read no other, follow the proxy and trust the
 * certificates of all sandboxes. The template's own options come last, so that Java prefers them. A
 * template whose variable is empty, or has its value from elsewhere, keeps it as it is.
 */
export function javaEnvironment(
  { env = [] }: Container,
  { proxies, trustStore }: JavaEnvironmentOptions,
): readonly Variable[] {
  const template = env.find(({ name }) => name === variableName);
  const own = template?.value ?? '';
  if (template !== undefined && own === '') return [];
  const value = [
    ...(trustStore === undefined ? [] : [`-Djavax.net.ssl.trustStore=${trustStore}`]),
    ...proxyOptions(proxies, own),
  ]
    .filter((option) => option !== '')
    .join(' ');
  return value === own ? [] : [{ name: variableName, value }];
}
