import type { V1Container, V1Volume } from '@kubernetes/client-node';
import type { Wire } from '@conversation-operator/kube/object';
import type { AcpSettings } from '../../resources/acp-settings.ts';
import { isIP } from 'node:net';
import { readFileSync } from 'node:fs';
import type { CachedContainerStatus, CachedPod } from '../../resources/cached-core.ts';
import { group } from '../../resources/group.ts';
import { FailureCode, FailurePolicy, type Failure } from './failure.ts';

type AgentContainer = Wire<V1Container>;

/** Certificates that sandboxes trust besides those of their images. */
export interface SandboxTrust {
  readonly kind: 'ConfigMap' | 'Secret';
  /** Name in the namespace of the sandbox. Only the kubelet reads the object. */
  readonly name: string;
  /** Key in the object whose value has certificates in the PEM format. */
  readonly key: string;
}

/** Name of the init container that adds the certificates, and of its volume. */
export const trustName = 'conversation-operator-trust';
const sourceName = `${trustName}-source`;
const folder = '/etc/conversation-operator/trust';
const sourceFolder = '/etc/conversation-operator/trust-source';
const sourceFile = 'ca.crt';
/** Exit code of `trust.sh` if the certificates are missing. */
const missing = 78;

const program = readFileSync(new URL('./trust.sh', import.meta.url), 'utf8');

/** Trust store for Java, which reads no PEM file. Without the file Java keeps its own roots. */
export const trustStore = `${folder}/cacerts`;

/** Variables that make programs trust the certificates of a file instead of the system's. */
const replacing = ['SSL_CERT_FILE', 'CURL_CA_BUNDLE', 'GIT_SSL_CAINFO', 'REQUESTS_CA_BUNDLE'];

/** Trust variables of the agent's container, except those that the template sets. */
export const trustEnvironment = ({
  env = [],
}: Pick<AgentContainer, 'env'>): { name: string; value: string }[] =>
  [
    { name: 'NODE_EXTRA_CA_CERTS', value: `${folder}/added.crt` },
    ...replacing.map((name) => ({ name, value: `${folder}/all.crt` })),
  ].filter(({ name }) => env.every((own) => own.name !== name));

export const trustMount = { name: trustName, mountPath: folder, readOnly: true };

/**
 * The source is optional, so that the container can fail if it is missing. For a missing required
 * source the kubelet would wait for ever and report only an Event.
 */
export function trustVolumes({ kind, name, key }: SandboxTrust): Wire<V1Volume>[] {
  const items = [{ key, path: sourceFile }];
  const source =
    kind === 'ConfigMap'
      ? { configMap: { name, items, optional: true } }
      : { secret: { secretName: name, items, optional: true } };
  return [
    { name: sourceName, ...source },
    { name: trustName, emptyDir: { sizeLimit: '16Mi' } },
  ];
}

/**
 * The init container that adds the certificates, and runs first. Its image, user and resources are
 * those of the agent, so that the pod has no further requirements.
 */
export function trustContainer(
  { image, imagePullPolicy, resources, securityContext }: AgentContainer,
  { kind, name, key }: SandboxTrust,
): AgentContainer {
  return {
    name: trustName,
    ...(image === undefined ? {} : { image }),
    ...(imagePullPolicy === undefined ? {} : { imagePullPolicy }),
    ...(resources === undefined ? {} : { resources }),
    ...(securityContext === undefined ? {} : { securityContext }),
    command: ['/bin/sh', '-c', program, 'trust'],
    args: [folder, `${sourceFolder}/${sourceFile}`, kind, name, key],
    terminationMessagePolicy: 'FallbackToLogsOnError',
    volumeMounts: [
      { name: trustName, mountPath: folder },
      { name: sourceName, mountPath: sourceFolder, readOnly: true },
    ],
  };
}

/** Annotation of a pod with the source of its certificates, such as ConfigMap/company-ca/ca.crt. */
const sourceAnnotation = `${group}/trust`;

export const trustAnnotations = ({ kind, name, key }: SandboxTrust) => ({
  [sourceAnnotation]: `${kind}/${name}/${key}`,
});

/** The failure of `trustContainer` without its certificates; undefined for any other state. */
export function trustFailure(
  { name, state, lastState }: CachedContainerStatus,
  { metadata }: CachedPod,
): Failure | undefined {
  if (name !== trustName) return undefined;
  const ended =
    state?.terminated ??
    (state?.waiting?.reason === 'CrashLoopBackOff' ? lastState?.terminated : undefined);
  if (ended?.exitCode !== missing) return undefined;
  const [kind = '', object = '', key = ''] =
    metadata.annotations?.[sourceAnnotation]?.split('/') ?? [];
  return {
    code: FailureCode.containerConfigError,
    message: `The ${kind} ${object} with the key ${key} does not exist in the sandbox's namespace.`,
    policy: FailurePolicy.environment,
  };
}

type Container = Pick<Wire<V1Container>, 'env' | 'envFrom'>;
type Variable = NonNullable<Container['env']>[number];

export interface SandboxProxy {
  readonly https?: string | undefined;
  readonly http?: string | undefined;
  readonly noProxy: readonly string[];
}

export interface ProxyEnvironmentOptions {
  /** Proxy of all sandboxes; a proxy in a template replaces it. Absent: no proxy. */
  readonly proxy?: SandboxProxy | undefined;
  /** URLs of callback servers; none if sandboxes can not reach the gateway. */
  readonly callbackUrls: readonly string[];
}

const loopback = ['localhost', '127.0.0.1', '::1'];
/** Variable that gets the template's NO_PROXY if that is a reference (`valueFrom`). */
const templateNoProxy = 'TEMPLATE_NO_PROXY';

const nodeVariable = 'NODE_USE_ENV_PROXY';

/** Programs read only one spelling: curl ignores HTTP_PROXY, others ignore http_proxy. */
const spellingsOf = (name: string): readonly [string, string] => [name, name.toLowerCase()];
const noProxySpellings = spellingsOf('NO_PROXY');

const proxiesOf = ({ https, http }: Partial<SandboxProxy>): readonly [string, string][] => [
  ...(https === undefined ? [] : [['HTTPS_PROXY', https] as [string, string]]),
  ...(http === undefined ? [] : [['HTTP_PROXY', http] as [string, string]]),
];

/**
 * Hosts that sandboxes never reach through a proxy: loopback addresses, and callback servers
 * under their current and earlier names, because requests to them have keys of the sandbox.
 */
function hostsInside(callbackUrls: readonly string[]): readonly string[] {
  const hosts = callbackUrls.flatMap((url) => {
    const host = new URL(url).hostname.replace(/^\[(.*)\]$/, '$1');
    return [host, host.replace(/\.svc$/, '')];
  });
  return [...new Set([...hosts, ...loopback])];
}

/** Adds hosts to a list. A list that is only a star means all hosts, and stays unchanged. */
function withHosts(list: string, hosts: readonly string[]): string {
  if (list.trim() === '*') return list;
  const present = new Set(list.split(/[\s,]+/));
  return [list, ...hosts.filter((host) => !present.has(host))]
    .filter((part) => part !== '')
    .join(',');
}

/**
 * Proxy variables that replace those of the agent's container. They contain the proxy of all
 * sandboxes, unless the template names one, and a NO_PROXY with the gateway. NO_PROXY is present
 * even without a proxy, because an image may name a proxy.
 */
export function proxyEnvironment(
  { env = [], envFrom = [] }: Container,
  { proxy, callbackUrls }: ProxyEnvironmentOptions,
): readonly Variable[] {
  if (proxy === undefined && callbackUrls.length === 0) return [];
  const named = new Map(env.map((variable) => [variable.name, variable]));
  const proxies = proxiesOf(proxy ?? {}).flatMap(([name, value]) => {
    const spellings = spellingsOf(name);
    return spellings.some((spelling) => named.has(spelling))
      ? []
      : spellings.map((spelling) => ({ name: spelling, value }));
  });
  const inside = hostsInside(callbackUrls);
  const lists = noProxySpellings.flatMap((name, index): readonly Variable[] => {
    const own = named.get(name) ?? named.get(noProxySpellings[1 - index] ?? name);
    if (own?.valueFrom !== undefined) {
      const source = `${templateNoProxy}_${index}`;
      return [
        { name: source, valueFrom: own.valueFrom },
        { name, value: withHosts(`$(${source})`, inside) },
      ];
    }
    if (own !== undefined) return [{ name, value: withHosts(own.value ?? '', inside) }];
    // The kubelet replaces `$(NO_PROXY)` by the value of envFrom. Without a value the text
    // `$(NO_PROXY)` stays, which matches no host.
    const others = [...(envFrom.length === 0 ? [] : [`$(${name})`]), ...(proxy?.noProxy ?? [])];
    return [{ name, value: withHosts(others.join(','), inside) }];
  });
  // Node ignores the other variables unless this one is set.
  const node =
    proxies.length === 0 || named.has(nodeVariable) ? [] : [{ name: nodeVariable, value: '1' }];
  return [...proxies, ...node, ...lists];
}

/**
 * Settings of an agent of the kind `acp`, with the gateway added to NO_PROXY in their environment,
 * which has precedence over the environment of the container. If the settings name a proxy only in
 * upper case or only in lower case, both forms are set, so that both replace the proxy of all
 * sandboxes.
 */
export function acpWithoutProxy(
  acp: AcpSettings | undefined,
  { proxy, callbackUrls }: ProxyEnvironmentOptions,
): AcpSettings | undefined {
  if (acp?.env === undefined || (proxy === undefined && callbackUrls.length === 0)) return acp;
  const env: Record<string, string> = { ...acp.env };
  for (const [name] of proxiesOf(proxy ?? {})) {
    const [upper, lower] = spellingsOf(name);
    const own = env[upper] ?? env[lower];
    if (own !== undefined) Object.assign(env, { [upper]: own, [lower]: own, ...acp.env });
  }
  const [upper, lower] = noProxySpellings;
  const inside = hostsInside(callbackUrls);
  const list = env[upper] ?? env[lower];
  if (list !== undefined) {
    env[upper] = withHosts(env[upper] ?? list, inside);
    env[lower] = withHosts(env[lower] ?? list, inside);
  }
  return { ...acp, env };
}

interface JavaEnvironmentOptions {
  /** Proxy variables that `proxyEnvironment` adds to those of the template. */
  readonly proxies: readonly Variable[];
  /** File with the certificates that Java trusts; absent: Java trusts its own. */
  readonly trustStore?: string | undefined;
}

/** Every Java virtual machine reads options from this variable, and prints them on stderr. */
const variableName = 'JAVA_TOOL_OPTIONS';

const schemes = ['https', 'http'] as const;

/** Maven 3.9 needs this option to use Java's proxy. Other versions ignore the option. */
const mavenFollowsJava = '-Daether.connector.http.useSystemProperties=true';

/**
 * Java's patterns for an entry of NO_PROXY. A pattern is a host with a star at its start or end. An
 * entry with a port, or a CIDR whose prefix length is not 8, 16 or 24, has no pattern.
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

/** Adds patterns to `-Dhttp.nonProxyHosts` if the options of the template contain that option. */
const withPatterns = (own: string, patterns: readonly string[]): string =>
  own.replace(ownHosts, (option, list: string) => {
    const present = new Set(list.split('|'));
    return [option, ...patterns.filter((pattern) => !present.has(pattern))].join('|');
  });

/**
 * Options for the proxies among these variables, then the template's own options. Java does not
 * support a proxy over TLS, so such a proxy is left out.
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
 * JAVA_TOOL_OPTIONS, by which Java uses the proxy and the certificates of all sandboxes. The
 * template's own options come last, so that they have precedence. A template whose variable is
 * empty or a reference keeps it unchanged.
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
