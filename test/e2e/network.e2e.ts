import { getJson, kubectl } from './support/cluster.ts';
import { TestedInstallation, release } from './support/installation.ts';
import { lets, selected, type Policy } from './support/network-policies.ts';

const up = new TestedInstallation('story');
const { namespace, sandboxes, tools } = up.facts;
const policy = (of: string, name: string) =>
  getJson<Policy>(`--namespace ${of} networkpolicy ${release}-${name}`);

describe('the network policy of sandboxes', () => {
  let sandbox: string;
  let id: string;
  let found: Policy;
  beforeAll(async () => {
    const { id: task } = await up.start('Hello.');
    const over = await up.over(task);
    id = over.app_conversation_id ?? '';
    sandbox = over.sandbox_id ?? '';
    found = await policy(sandboxes, 'sandboxes');
  });
  afterAll(() => up.call('DELETE', `/api/v1/app-conversations/${id}`));

  it('means every sandbox, in both directions', async () => {
    expect(found.spec.policyTypes).toEqual(['Ingress', 'Egress']);
    expect(await selected(sandboxes, found.spec.podSelector)).toContain(sandbox);
  });

  it('admits the operator and the gateway, and no other peer', async () => {
    const peers = found.spec.ingress.flatMap(({ from = [] }) => from);
    const pods = await Promise.all(
      peers.map(({ namespaceSelector, podSelector }) => {
        expect(namespaceSelector).toEqual({
          matchLabels: { 'kubernetes.io/metadata.name': namespace },
        });
        return selected(namespace, podSelector);
      }),
    );
    const all = (
      await kubectl(`--namespace ${namespace} get pods -o jsonpath={.items[*].metadata.name}`)
    ).split(' ');
    expect(pods.flat().toSorted()).toEqual(
      all.filter((name) => /-(operator|gateway)-\w+-\w+$/.test(name)).toSorted(),
    );
  });

  it('opens the public internet, and neither the cluster nor the metadata service', async () => {
    const ranges = found.spec.egress
      .filter(({ ports }) => ports === undefined)
      .flatMap(({ to = [] }) => to);
    expect([...ranges.map(({ ipBlock }) => ipBlock?.cidr)].toSorted()).toEqual([
      '0.0.0.0/0',
      '::/0',
    ]);
    const addresses = await kubectl([
      'get',
      'pods,services,nodes',
      '--all-namespaces',
      '-o',
      'jsonpath={.items[*].status.podIP} {.items[*].spec.clusterIP} {.items[*].status.addresses[?(@.type=="InternalIP")].address}',
    ]);
    const ofTheCluster = addresses.split(/\s+/).filter((address) => /^[0-9a-f.:]+$/i.test(address));
    expect(ofTheCluster.length).toBeGreaterThan(5);
    for (const address of [
      ...ofTheCluster,
      '169.254.169.254',
      'fd00:ec2::254',
      '100.100.100.200',
      '127.0.0.1',
      '192.168.1.1',
    ]) {
      expect([address, lets(ranges, address)]).toEqual([address, false]);
    }
    for (const address of ['1.1.1.1', '140.82.121.4', '2606:4700:4700::1111']) {
      expect([address, lets(ranges, address)]).toEqual([address, true]);
    }
  });

  it("opens names, the gateway's agent side, and what extraEgress names", () => {
    const others = found.spec.egress.filter(({ ports }) => ports !== undefined);
    expect(others.flatMap(({ ports = [] }) => ports.map(({ port }) => port))).toEqual([
      53,
      53,
      5353,
      5353,
      'agent-side',
      8080,
    ]);
    expect(others.at(-1)?.to).toEqual([
      { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': tools } } },
    ]);
  });
});

it('the network policy of the gateway opens the git server that it asks for repositories, that of the operator does not', async () => {
  const opened = async (component: string) =>
    (await policy(namespace, component)).spec.egress.flatMap(({ to = [] }) => to);
  const gitServer = {
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': tools } },
  };
  expect(await opened('gateway')).toContainEqual(gitServer);
  expect(await opened('operator')).not.toContainEqual(gitServer);
});

describe.each(['operator', 'gateway'])('the network policy of the %s', (component) => {
  it('means its pods, in both directions, and lets them reach sandboxes', async () => {
    const { spec } = await policy(namespace, component);
    expect(spec.policyTypes).toEqual(['Ingress', 'Egress']);
    expect(await selected(namespace, spec.podSelector)).toHaveLength(2);
    const peers = spec.egress.flatMap(({ to = [] }) => to);
    expect(peers).toContainEqual({
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': sandboxes } },
      podSelector: {
        matchExpressions: [{ key: 'conversation-operator.dev/sandbox', operator: 'Exists' }],
      },
    });
  });
});
