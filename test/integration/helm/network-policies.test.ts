import { networkPolicySchema, openPorts } from '../../support/egress.ts';
import { RenderedChart } from '../../support/rendered-chart.ts';

/** The last one is a public address by way of NAT64. */
const publicAddresses = [
  '1.1.1.1',
  '140.82.121.4',
  '8.8.8.8',
  '2606:4700:4700::1111',
  '64:ff9b::808:808',
];
const metadataService = ['169.254.169.254', 'fd00:ec2::254'];
const closed = { gateway: { internet: false }, sandboxes: { internet: false } };

/** The rendered policies of the gateway and of sandboxes. */
async function render(networkPolicies: object, more: object = {}) {
  const chart = await RenderedChart.of(4, { values: { ...more, networkPolicies } });
  const [gateway, sandboxes] = ['-gateway', '-sandboxes'].map((name) =>
    networkPolicySchema.parse(chart.one('NetworkPolicy', name)),
  );
  if (gateway === undefined || sandboxes === undefined) throw new Error('a policy is missing');
  return { gateway, sandboxes };
}

describe('without the internet', () => {
  it.each([
    ['as the chart is', {}],
    ['where names are resolved anywhere', { dns: [] }],
    [
      'where the API server is behind a range of the whole family',
      { apiServer: { cidrs: ['0.0.0.0/0'] } },
    ],
  ])(
    'neither the gateway nor a sandbox reaches a public address at any port, %s',
    async (_name, more) => {
      const { gateway, sandboxes } = await render({ ...closed, ...more });
      for (const policy of [gateway, sandboxes])
        for (const address of publicAddresses)
          expect([address, openPorts(policy, address)]).toEqual([address, []]);
    },
  );

  it('the gateway still reaches an API server of a private address, and not the metadata service', async () => {
    const { gateway: policy } = await render(closed);
    for (const address of ['10.96.0.1', '172.20.0.1', '192.168.1.10', '100.64.3.4', 'fd00::1'])
      expect([address, openPorts(policy, address)]).toEqual([address, [443, 6443]]);
    expect(openPorts(policy, '169.254.169.254')).toEqual([]);
  });

  it('the gateway reaches an API server of a public address where that is named', async () => {
    const { gateway: policy } = await render({
      ...closed,
      apiServer: { cidrs: ['203.0.113.7/32'] },
    });
    expect(openPorts(policy, '203.0.113.7')).toEqual([443, 6443]);
    expect(openPorts(policy, '203.0.113.8')).toEqual([]);
    expect(openPorts(policy, '10.96.0.1')).toEqual([]);
  });
});

describe('with the internet', () => {
  it('sandboxes and the gateway reach it, but neither the metadata service nor private addresses other than the API server', async () => {
    const { gateway, sandboxes } = await render({});
    for (const address of publicAddresses.slice(0, -1)) {
      expect(openPorts(sandboxes, address)).toEqual(['*']);
      expect(openPorts(gateway, address)).toContain(443);
    }
    for (const address of [...metadataService, '10.0.0.1'])
      expect(openPorts(sandboxes, address)).toEqual([]);
  });

  // Clones, pushes and pull requests of sandboxes pass through the gateway.
  it('the gateway reaches git hosts also where it does not ask them for the repositories of starts', async () => {
    const { gateway } = await render(
      { apiServer: { cidrs: ['10.0.0.1/32'] } },
      {
        gateway: { repositoryCheck: { enabled: false } },
        gitHosts: [
          { provider: 'github', url: 'https://github.com' },
          { provider: 'forgejo', url: 'https://forge.example.com:3000' },
        ],
      },
    );
    for (const address of publicAddresses.slice(0, -1))
      expect([address, openPorts(gateway, address)]).toEqual([address, [443, 3000]]);
    for (const address of [...metadataService, '10.0.0.2'])
      expect(openPorts(gateway, address)).toEqual([]);
  });
});

describe('with an archive in an object store', () => {
  const publicOnes = publicAddresses.slice(0, -1);
  const podIdentity = ['169.254.170.23', 'fd00:ec2::23'];
  /** The rendered policies of the operator and the gateway, with an API server at one address. */
  const renderS3 = async (s3: object, more: object = {}) => {
    const networkPolicies = { apiServer: { cidrs: ['203.0.113.7/32'] }, ...more };
    const values = { archive: { s3: { bucket: 'history', ...s3 } }, networkPolicies };
    const chart = await RenderedChart.of(4, { values });
    return (['-operator', '-gateway'] as const).map((name) => {
      const policy = chart.one('NetworkPolicy', name) as unknown;
      return {
        ports: (address: string) => openPorts(networkPolicySchema.parse(policy), address),
        policy,
      };
    });
  };
  const distinct = (ports: readonly unknown[]) => [...new Set(ports)];

  it('both reach AWS and what gives credentials', async () => {
    for (const { ports } of await renderS3({})) {
      for (const address of publicOnes) expect(distinct(ports(address))).toEqual([443]);
      for (const address of [...metadataService, ...podIdentity])
        expect([address, ports(address)]).toEqual([address, [80]]);
      expect(ports('10.0.0.1')).toEqual([]);
    }
  });

  it('both reach the port of an endpoint, in private networks too, and no metadata with a Secret', async () => {
    const endpoint = 'https://s3.example.com:9000/store';
    const [operator, gateway] = await renderS3({ endpoint, secretName: 'keys' });
    for (const address of [...publicOnes, '10.0.0.1', 'fd00::1'])
      expect([address, operator?.ports(address)]).toEqual([address, [9000]]);
    expect(gateway?.ports('1.1.1.1')).toEqual([9000, 443]);
    expect(gateway?.ports('10.0.0.1')).toEqual([9000]);
    for (const address of ['169.254.169.254', '169.254.170.23'])
      expect([operator?.ports(address), gateway?.ports(address)]).toEqual([[], []]);
  });

  it.each([
    ['http://minio.storage.svc:9000', 'storage'],
    ['https://minio.storage.svc.cluster.local', 'storage'],
  ])(
    'both reach the namespace of %s alone, since a Service may translate its port',
    async (endpoint, name) => {
      for (const { ports, policy } of await renderS3({ endpoint, secretName: 'keys' })) {
        expect(policy).toHaveProperty(
          'spec.egress',
          expect.arrayContaining([
            {
              to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } } }],
            },
          ]),
        );
        expect(ports('10.0.0.1')).toEqual([]);
      }
    },
  );

  it('both reach what the values name instead', async () => {
    const archive = { to: [{ ipBlock: { cidr: '198.51.100.9/32' } }], ports: [8333] };
    for (const more of [{ archive }, { archive, gateway: { internet: false } }])
      for (const { ports } of await renderS3({ endpoint: 'http://s3:1', secretName: 'keys' }, more))
        expect([ports('198.51.100.9').includes(8333), ports('10.0.0.1')]).toEqual([true, []]);
  });

  it('a gateway without the internet reaches private addresses of the store only', async () => {
    const [operator, gateway] = await renderS3({}, closed);
    for (const address of publicAddresses)
      expect([address, gateway?.ports(address)]).toEqual([address, []]);
    expect(gateway?.ports('10.0.0.1')).toEqual([443]);
    expect(operator?.ports('1.1.1.1')).toContain(443);
  });

  it('sandboxes reach no more than before', async () => {
    const sandboxes = async (values: object) =>
      (await RenderedChart.of(4, { values })).one('NetworkPolicy', '-sandboxes') as unknown;
    expect(await sandboxes({ archive: { s3: { bucket: 'history' } } })).toEqual(
      await sandboxes({}),
    );
  });
});
