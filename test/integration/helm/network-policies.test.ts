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
