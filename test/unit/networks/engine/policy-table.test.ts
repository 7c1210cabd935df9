import {
  matches,
  policyTable,
  type ClusterView,
  type PolicedPod,
  type Policy,
} from '../../../networks/engine/policy-table.ts';

function aPod(name: string, ip: string, labels: Readonly<Record<string, string>> = {}): PolicedPod {
  return {
    metadata: { uid: `uid-${name}`, name, namespace: 'shop', labels },
    spec: { containers: [{ ports: [{ name: 'http', containerPort: 3000 }] }] },
    status: { phase: 'Running', podIPs: [{ ip }] },
  };
}

const aPolicy = (spec: Policy['spec']): Policy => ({
  metadata: { uid: 'p', name: 'p', namespace: 'shop' },
  spec,
});

const view = (more: Partial<ClusterView>): ClusterView => ({
  pods: [],
  namespaces: [{ metadata: { uid: 'n', name: 'shop', labels: { team: 'a' } } }],
  policies: [],
  nodeAddresses: [],
  rangesMatchCluster: true,
  ...more,
});

/** The lines of the chain of pod `a`. */
function chainOf(direction: 'egress' | 'ingress', more: Partial<ClusterView>): readonly string[] {
  const pods = [aPod('a', '10.88.0.2', { app: 'a' }), aPod('b', 'fd00:88::3', { app: 'b' })];
  const table = policyTable(view({ pods, ...more }));
  const [, body = ''] = table.split(`chain ${direction}-uid-a {\n`);
  return (
    body
      .split('\n}')[0]
      ?.split('\n')
      .map((line) => line.trim()) ?? []
  );
}

const rejected = (direction: string) =>
  `counter reject with icmpx admin-prohibited comment "${direction} of shop/a"`;
const self = 'ip daddr 10.88.0.2 return';
const podSelector = { matchLabels: { app: 'a' } };

describe('the table of policies', () => {
  it('has no chain for a pod that no policy selects', () => {
    expect(policyTable(view({ pods: [aPod('a', '10.88.0.2')] }))).not.toContain('uid-a');
  });

  it.each<[string, Policy['spec'], readonly string[]]>([
    ['refuses all egress without a rule', { podSelector, policyTypes: ['Egress'] }, []],
    [
      'permits every address to a rule without peers, at its ports',
      {
        podSelector,
        policyTypes: ['Egress'],
        egress: [{ ports: [{ port: 53, protocol: 'UDP' }] }],
      },
      ['udp dport 53 return'],
    ],
    [
      'permits a range without its exceptions',
      {
        podSelector,
        egress: [{ to: [{ ipBlock: { cidr: '0.0.0.0/0', except: ['10.0.0.0/8'] } }] }],
      },
      ['meta nfproto ipv4 ip daddr != { 10.0.0.0/8 } return'],
    ],
    [
      'permits a range of IPv6',
      { podSelector, egress: [{ to: [{ ipBlock: { cidr: 'fc00::/7' } }] }] },
      ['ip6 daddr fc00::/7 return'],
    ],
    [
      'permits the pods that a peer selects, at a port of their own name for it',
      {
        podSelector,
        egress: [
          { to: [{ podSelector: { matchLabels: { app: 'b' } } }], ports: [{ port: 'http' }] },
        ],
      },
      ['ip6 daddr fd00:88::3 tcp dport 3000 return'],
    ],
    [
      'permits nothing to a peer whose namespaces do not exist',
      { podSelector, egress: [{ to: [{ namespaceSelector: { matchLabels: { team: 'b' } } }] }] },
      [],
    ],
    [
      'permits nothing at a port whose name the pod does not have',
      { podSelector, egress: [{ to: [{ podSelector: {} }], ports: [{ port: 'metrics' }] }] },
      [],
    ],
  ])('%s', (_name, spec, lines) => {
    const chain = chainOf('egress', { policies: [aPolicy(spec)] }).map((line) =>
      line.replaceAll(/\s+/g, ' '),
    );
    expect(chain).toEqual([self, ...lines, rejected('Egress')]);
  });

  it("reads the names of ports of ingress from the pod's own containers", () => {
    const spec = { podSelector, ingress: [{ from: [], ports: [{ port: 'http' }] }] };
    expect(chainOf('ingress', { policies: [aPolicy(spec)] })).toEqual([
      'ip saddr 10.88.0.2 return',
      'tcp dport 3000 return',
      rejected('Ingress'),
    ]);
  });

  it('is about ingress alone without types and without rules of egress', () => {
    expect(chainOf('egress', { policies: [aPolicy({ podSelector })] })).toEqual(['']);
  });

  it('excludes the node and pods from ranges where these never mean them', () => {
    const spec = { podSelector, egress: [{ to: [{ ipBlock: { cidr: '10.0.0.0/8' } }] }] };
    const policies = [aPolicy(spec)];
    const more = { policies, nodeAddresses: ['10.88.0.1'], rangesMatchCluster: false };
    expect(chainOf('egress', more)).toContain('ip daddr 10.0.0.0/8 ip daddr != @cluster-ip return');
    expect(policyTable(view({ pods: [aPod('a', '10.88.0.2')], ...more }))).toContain(
      'set cluster-ip { type ipv4_addr; elements = { 10.88.0.2, 10.88.0.1 } }',
    );
  });

  it('sends what a pod opens through its chain of egress', () => {
    const policies = [aPolicy({ podSelector, policyTypes: ['Egress'] })];
    expect(policyTable(view({ pods: [aPod('a', '10.88.0.2', { app: 'a' })], policies }))).toContain(
      'ip saddr vmap { 10.88.0.2 : jump egress-uid-a }',
    );
  });
});

describe('a selector', () => {
  it.each([
    ['In', ['a'], { app: 'a' }, true],
    ['In', ['a'], {}, false],
    ['NotIn', ['a'], {}, true],
    ['NotIn', ['a'], { app: 'a' }, false],
    ['Exists', undefined, { app: 'b' }, true],
    ['DoesNotExist', undefined, { app: 'b' }, false],
  ])('with %s %j matches %j: %s', (operator, values, labels, isMatch) => {
    const expression = { key: 'app', operator, ...(values === undefined ? {} : { values }) };
    expect(matches({ matchExpressions: [expression] }, labels)).toBe(isMatch);
  });
});
