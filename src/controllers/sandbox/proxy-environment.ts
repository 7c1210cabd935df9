import type { V1Container } from '@kubernetes/client-node';
import type { Wire } from '@conversation-operator/kube/object';
import type { AcpSettings } from '../../resources/acp-settings.ts';

type Container = Pick<Wire<V1Container>, 'env' | 'envFrom'>;
type Variable = NonNullable<Container['env']>[number];

/** The proxy by which sandboxes reach what is outside of the cluster. */
export interface SandboxProxy {
  /** URL of the proxy for https. */
  readonly https?: string | undefined;
  /** URL of the proxy for http. */
  readonly http?: string | undefined;
  /** Hosts that are reached without the proxy. */
  readonly noProxy: readonly string[];
}

export interface ProxyEnvironmentOptions {
  /** Proxy of all sandboxes. A template that names one has its own. Absent: none. */
  readonly proxy?: SandboxProxy | undefined;
  /** URL of the gateway's callback server. Absent: the sandbox does not reach the gateway. */
  readonly callbackUrl?: string | undefined;
}

const loopback = ['localhost', '127.0.0.1', '::1'];
/** Variable with the template's own list, where the value is known to the kubelet alone. */
const templateNoProxy = 'TEMPLATE_NO_PROXY';

const nodeVariable = 'NODE_USE_ENV_PROXY';

/** Programs read one spelling or the other: curl takes no HTTP_PROXY, and others no http_proxy. */
const spellingsOf = (name: string): readonly [string, string] => [name, name.toLowerCase()];
const noProxySpellings = spellingsOf('NO_PROXY');

const proxiesOf = ({ https, http }: Partial<SandboxProxy>): readonly [string, string][] => [
  ...(https === undefined ? [] : [['HTTPS_PROXY', https] as [string, string]]),
  ...(http === undefined ? [] : [['HTTP_PROXY', http] as [string, string]]),
];

/**
 * Hosts that no proxy may be asked for: the callback server, by the name that agents have of this
 * start or of an earlier one, because requests to it have keys of the sandbox, and the sandbox
 * itself.
 */
function hostsInside(callbackUrl: string | undefined): readonly string[] {
  if (callbackUrl === undefined) return loopback;
  const host = new URL(callbackUrl).hostname.replace(/^\[(.*)\]$/, '$1');
  return [...new Set([host, host.replace(/\.svc$/, ''), ...loopback])];
}

/** A list of hosts with these hosts added. A star is all hosts, and only where it is alone. */
function withHosts(list: string, hosts: readonly string[]): string {
  if (list.trim() === '*') return list;
  const present = new Set(list.split(/[\s,]+/));
  return [list, ...hosts.filter((host) => !present.has(host))]
    .filter((part) => part !== '')
    .join(',');
}

/**
 * Variables of the agent's container about proxies, which replace those of the same name: the proxy
 * of all sandboxes where the template names none, and a list of hosts without a proxy that has the
 * gateway. The list is there without any proxy too, because an image may name one.
 */
export function proxyEnvironment(
  { env = [], envFrom = [] }: Container,
  { proxy, callbackUrl }: ProxyEnvironmentOptions,
): readonly Variable[] {
  if (proxy === undefined && callbackUrl === undefined) return [];
  const named = new Map(env.map((variable) => [variable.name, variable]));
  const proxies = proxiesOf(proxy ?? {}).flatMap(([name, value]) => {
    const spellings = spellingsOf(name);
    return spellings.some((spelling) => named.has(spelling))
      ? []
      : spellings.map((spelling) => ({ name: spelling, value }));
  });
  const inside = hostsInside(callbackUrl);
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
    // The kubelet replaces the reference by the value of envFrom. Where there is no value, the
    // reference stays as it is, and is the name of no host.
    const others = [...(envFrom.length === 0 ? [] : [`$(${name})`]), ...(proxy?.noProxy ?? [])];
    return [{ name, value: withHosts(others.join(','), inside) }];
  });
  // Without this variable Node reads none of them.
  const node =
    proxies.length === 0 || named.has(nodeVariable) ? [] : [{ name: nodeVariable, value: '1' }];
  return [...proxies, ...node, ...lists];
}

/**
 * Settings of an agent of the kind `acp` whose own environment, which precedes that of the
 * container, lists the gateway among the hosts without a proxy. A proxy that the settings name in
 * one spelling replaces that of all sandboxes in both.
 */
export function acpWithoutProxy(
  acp: AcpSettings | undefined,
  { proxy, callbackUrl }: ProxyEnvironmentOptions,
): AcpSettings | undefined {
  if (acp?.env === undefined || (proxy === undefined && callbackUrl === undefined)) return acp;
  const env: Record<string, string> = { ...acp.env };
  for (const [name] of proxiesOf(proxy ?? {})) {
    const [upper, lower] = spellingsOf(name);
    const own = env[upper] ?? env[lower];
    if (own !== undefined) Object.assign(env, { [upper]: own, [lower]: own, ...acp.env });
  }
  const [upper, lower] = noProxySpellings;
  const inside = hostsInside(callbackUrl);
  const list = env[upper] ?? env[lower];
  if (list !== undefined) {
    env[upper] = withHosts(env[upper] ?? list, inside);
    env[lower] = withHosts(env[lower] ?? list, inside);
  }
  return { ...acp, env };
}
