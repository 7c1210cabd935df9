import { holds } from '../../support/egress.ts';
import { getJson, kubectl } from './cluster.ts';

export interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly { readonly key: string }[];
}

export interface Peer {
  readonly namespaceSelector?: Selector;
  readonly podSelector?: Selector;
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
}

export interface Policy {
  readonly spec: {
    readonly podSelector: Selector;
    readonly policyTypes: readonly string[];
    readonly ingress: readonly { readonly from?: readonly Peer[] }[];
    readonly egress: readonly {
      readonly to?: readonly Peer[];
      readonly ports?: readonly { readonly port: number | string }[];
    }[];
  };
}

/** A server of the cluster, as a connection reaches it behind its Service. */
export interface Target {
  readonly namespace: string;
  readonly pod: string;
  readonly address: string;
  readonly port: number;
}

const selector = ({ matchLabels = {}, matchExpressions = [] }: Selector): string =>
  [
    ...Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`),
    ...matchExpressions.map(({ key }) => key),
  ].join(',');

async function names(args: readonly string[], labels: Selector): Promise<readonly string[]> {
  const found = await kubectl([
    ...['get', ...args, '-l', selector(labels)],
    ...['-o', 'jsonpath={.items[*].metadata.name}'],
  ]);
  return found.split(' ').filter((name) => name !== '');
}

/** The pods that a selector means, by the API server's own judgement. */
export const selected = (of: string, labels: Selector = {}): Promise<readonly string[]> =>
  names(['pods', '--namespace', of], labels);

/** Whether peers that are address ranges let an address through. */
export const lets = (peers: readonly Peer[], address: string): boolean =>
  peers.some(
    ({ ipBlock }) =>
      ipBlock !== undefined &&
      holds(ipBlock.cidr, address) &&
      !(ipBlock.except ?? []).some((range) => holds(range, address)),
  );

/** Whether a policy lets its pods, which are in a namespace, open connections to a server. */
export async function opens(from: string, { spec }: Policy, target: Target): Promise<boolean> {
  const isTarget = async ({ namespaceSelector, podSelector, ipBlock }: Peer): Promise<boolean> => {
    if (ipBlock !== undefined) return lets([{ ipBlock }], target.address);
    const namespaces =
      namespaceSelector === undefined ? [from] : await names(['namespaces'], namespaceSelector);
    return (
      namespaces.includes(target.namespace) &&
      (await selected(target.namespace, podSelector)).includes(target.pod)
    );
  };
  for (const { to = [], ports } of spec.egress) {
    if (ports?.every(({ port }) => port !== target.port) === true) continue;
    if (to.length === 0) return true;
    for (const peer of to) if (await isTarget(peer)) return true;
  }
  return false;
}

/** Names of the pods of a namespace whose policies let them reach a server. */
export async function podsThatReach(from: string, target: Target): Promise<readonly string[]> {
  const { items } = await getJson<{ readonly items: readonly Policy[] }>(
    `--namespace ${from} networkpolicies`,
  );
  const pods = await Promise.all(
    items.map(async (policy) =>
      (await opens(from, policy, target)) ? selected(from, policy.spec.podSelector) : [],
    ),
  );
  return [...new Set(pods.flat())].toSorted();
}
