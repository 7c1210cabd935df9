import { isIPv6 } from 'node:net';

/** The parts of objects that decide which connections policies permit. */
interface Named {
  readonly metadata: {
    readonly uid: string;
    readonly name: string;
    /** Namespace; absent in objects of the cluster. */
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>> | undefined;
  };
}

interface NamedPort {
  readonly name?: string;
  readonly containerPort: number;
  readonly protocol?: string;
}

export interface PolicedPod extends Named {
  readonly spec: {
    readonly hostNetwork?: boolean;
    readonly containers: readonly { readonly ports?: readonly NamedPort[] }[];
  };
  readonly status: {
    readonly phase?: string;
    readonly podIPs?: readonly { readonly ip: string }[];
  };
}

export interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: string;
    readonly values?: readonly string[];
  }[];
}

interface Peer {
  readonly namespaceSelector?: Selector;
  readonly podSelector?: Selector;
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
}

interface PolicyPort {
  readonly port?: number | string;
  readonly endPort?: number;
  readonly protocol?: string;
}

interface Rule {
  readonly from?: readonly Peer[];
  readonly to?: readonly Peer[];
  readonly ports?: readonly PolicyPort[];
}

export interface Policy extends Named {
  readonly spec: {
    readonly podSelector: Selector;
    readonly policyTypes?: readonly string[];
    readonly ingress?: readonly Rule[];
    readonly egress?: readonly Rule[];
  };
}

export interface ClusterView {
  readonly pods: readonly PolicedPod[];
  readonly namespaces: readonly Named[];
  readonly policies: readonly Policy[];
  readonly nodeAddresses: readonly string[];
  /** Whether address ranges match the node, API server and pods; in Cilium they never do. */
  readonly rangesMatchCluster: boolean;
}

export function matches(
  { matchLabels = {}, matchExpressions = [] }: Selector,
  labels: Readonly<Record<string, string>> = {},
): boolean {
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      const value = labels[key];
      switch (operator) {
        case 'Exists':
          return value !== undefined;
        case 'DoesNotExist':
          return value === undefined;
        case 'In':
          return value !== undefined && values.includes(value);
        case 'NotIn':
          return value === undefined || !values.includes(value);
        default:
          throw new Error(`unknown operator ${operator} of a selector`);
      }
    })
  );
}

const familyOf = (address: string): 'ip' | 'ip6' => (isIPv6(address) ? 'ip6' : 'ip');
const addressesOf = ({ status }: PolicedPod): readonly string[] =>
  (status.podIPs ?? []).map(({ ip }) => ip);
/** Pods that policies are about: those of the node's network are not. */
const isPoliced = (pod: PolicedPod): boolean =>
  pod.spec.hostNetwork !== true &&
  addressesOf(pod).length > 0 &&
  !/Succeeded|Failed/.test(pod.status.phase ?? '');

function podsOf(
  view: ClusterView,
  peer: Peer,
  namespace: string | undefined,
): readonly PolicedPod[] {
  const { namespaceSelector, podSelector = {} } = peer;
  const names = new Set(
    namespaceSelector === undefined
      ? [namespace]
      : view.namespaces
          .filter(({ metadata }) => matches(namespaceSelector, metadata.labels))
          .map(({ metadata }) => metadata.name),
  );
  return view.pods
    .filter(isPoliced)
    .filter(
      ({ metadata }) => names.has(metadata.namespace) && matches(podSelector, metadata.labels),
    );
}

/** The number of a port; undefined where the pod has no port of that name. */
function portNumber(pod: PolicedPod, port: number | string, protocol: string): number | undefined {
  if (typeof port === 'number') return port;
  return pod.spec.containers
    .flatMap(({ ports = [] }) => ports)
    .find((each) => each.name === port && (each.protocol ?? 'TCP') === protocol)?.containerPort;
}

interface PeerMatch {
  /** A match of nftables. Empty: every address. */
  readonly text: string;
  readonly pod?: PolicedPod;
}

type Side = 'saddr' | 'daddr';

function peerMatches(
  view: ClusterView,
  side: Side,
  namespace: string | undefined,
  peers: readonly Peer[],
): readonly PeerMatch[] {
  // No peers: every address.
  if (peers.length === 0) return [{ text: '' }];
  return peers.flatMap((peer): readonly PeerMatch[] => {
    if (peer.ipBlock === undefined) {
      return podsOf(view, peer, namespace).flatMap((pod) =>
        addressesOf(pod).map((ip) => ({ text: `${familyOf(ip)} ${side} ${ip}`, pod })),
      );
    }
    const { cidr, except = [] } = peer.ipBlock;
    const family = familyOf(cidr.replace(/\/.*/, ''));
    const parts = [
      // nftables refuses a prefix of length 0.
      cidr.endsWith('/0')
        ? `meta nfproto ${family === 'ip6' ? 'ipv6' : 'ipv4'}`
        : `${family} ${side} ${cidr}`,
      ...(except.length === 0 ? [] : [`${family} ${side} != { ${except.join(', ')} }`]),
      ...(view.rangesMatchCluster ? [] : [`${family} ${side} != @cluster-${family}`]),
    ];
    return [{ text: parts.join(' ') }];
  });
}

/** The connections that a rule permits, as matches of nftables. */
function permitted(
  view: ClusterView,
  pod: PolicedPod,
  side: Side,
  { from, to, ports = [] }: Rule,
): readonly string[] {
  const { namespace } = pod.metadata;
  return peerMatches(view, side, namespace, from ?? to ?? []).flatMap(({ text, pod: other }) => {
    if (ports.length === 0) return [text];
    return ports.flatMap(({ port, endPort, protocol = 'TCP' }) => {
      if (port === undefined) return [`${text} meta l4proto ${protocol.toLowerCase()}`];
      // A name is that of a port of the pod that is reached; a range has none.
      const number = portNumber(side === 'saddr' ? pod : (other ?? pod), port, protocol);
      if (number === undefined || (side === 'daddr' && other === undefined && number !== port))
        return [];
      const range = endPort === undefined ? `${number}` : `${number}-${endPort}`;
      return [`${text} ${protocol.toLowerCase()} dport ${range}`];
    });
  });
}

const directions = [
  { type: 'Egress', field: 'egress', own: 'saddr', other: 'daddr' },
  { type: 'Ingress', field: 'ingress', own: 'daddr', other: 'saddr' },
] as const;

/** Policies without types are about egress where they have rules for it. */
const isAbout = ({ spec }: Policy, type: string): boolean =>
  (spec.policyTypes ?? (spec.egress === undefined ? ['Ingress'] : ['Ingress', 'Egress'])).includes(
    type,
  );

/** Addresses to verdicts, by the side and the family. */
const verdictMap = (side: Side, jumps: ReadonlyMap<string, string>): string =>
  (['ip', 'ip6'] as const)
    .map((family) => {
      const entries = [...jumps].filter(([address]) => familyOf(address) === family);
      if (entries.length === 0) return '';
      return `  ${family} ${side} vmap { ${entries.map((entry) => entry.join(' : jump ')).join(', ')} }\n`;
    })
    .join('');

const clusterSet = (family: 'ip' | 'ip6', addresses: readonly string[]): string => {
  const elements = [...new Set(addresses)].filter((address) => familyOf(address) === family);
  const type = family === 'ip' ? 'ipv4_addr' : 'ipv6_addr';
  return `set cluster-${family} { type ${type}; ${elements.length === 0 ? '' : `elements = { ${elements.join(', ')} }`} }`;
};

/**
 * The table `inet policies` of nftables that enforces all policies, in place of the one before.
 * Policies are judged after the translation of Services, as plugins do: addresses and ports are
 * those of pods. The node reaches every pod.
 */
export function policyTable(view: ClusterView): string {
  const chains: string[] = [];
  const jumps = { saddr: new Map<string, string>(), daddr: new Map<string, string>() };
  const pods = view.pods.filter(isPoliced);
  for (const pod of pods) {
    const { uid, namespace, name, labels } = pod.metadata;
    const ofPod = view.policies.filter(
      ({ metadata, spec }) => metadata.namespace === namespace && matches(spec.podSelector, labels),
    );
    for (const { type, field, own, other } of directions) {
      const policies = ofPod.filter((policy) => isAbout(policy, type));
      if (policies.length === 0) continue;
      const chain = `${field}-${uid}`;
      const lines = [
        // A pod always reaches itself.
        ...addressesOf(pod).map((ip) => `${familyOf(ip)} ${other} ${ip}`),
        ...policies.flatMap(({ spec }) =>
          (spec[field] ?? []).flatMap((rule) => permitted(view, pod, other, rule)),
        ),
      ];
      // The comment helps people who read the counters.
      const comment = `${type} of ${namespace}/${name}`.slice(0, 120);
      chains.push(
        `chain ${chain} {\n${[...new Set(lines)].map((line) => `  ${line} return\n`).join('')}  counter reject with icmpx admin-prohibited comment "${comment}"\n}`,
      );
      for (const ip of addressesOf(pod)) jumps[own].set(ip, chain);
    }
  }
  const cluster = [...pods.flatMap(addressesOf), ...view.nodeAddresses];
  const accepted = '  ct state established,related accept\n  meta l4proto ipv6-icmp accept\n';
  // Emptied by the first two lines, so that one transaction replaces the whole table.
  return `table inet policies {}
delete table inet policies
table inet policies {
${clusterSet('ip', cluster)}
${clusterSet('ip6', cluster)}
${chains.join('\n')}
chain forward { type filter hook forward priority 5; policy accept;
${accepted}${verdictMap('saddr', jumps.saddr)}${verdictMap('daddr', jumps.daddr)}}
chain input { type filter hook input priority 5; policy accept;
${accepted}${verdictMap('saddr', jumps.saddr)}}
}
`;
}
