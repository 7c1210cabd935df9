/* oxlint-disable
  @typescript-eslint/no-unsafe-call,
  @typescript-eslint/no-unsafe-member-access,
  @typescript-eslint/no-unsafe-assignment,
  @typescript-eslint/no-unsafe-return --
  Resources are of every kind; a wrong guess fails the test. */
import { networkPolicySchema, openPorts } from '../../support/egress.ts';
import type { Body } from '../../support/plane.ts';
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
/** Addresses in private networks at which clouds serve credentials. */
const privateMetadata = [
  ...['fd00:ec2::254', 'fd00:ec2::23', 'fd20:ce::254', 'fd00:c1::a9fe:a9fe', 'fd00:42::42'],
  ...['fd00:a9fe:a9fe::1', 'fd00:100::100:200', '100.100.100.200'],
];
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
    for (const address of ['169.254.169.254', ...privateMetadata])
      expect([address, openPorts(policy, address)]).toEqual([address, []]);
  });

  it('a sandbox still reaches the callback server of the gateway, which has its model, git and tools', async () => {
    const chart = await RenderedChart.of(4, { values: { networkPolicies: closed } });
    const { egress } = chart.one('NetworkPolicy', '-sandboxes').spec;
    expect(egress).toContainEqual({
      ports: [{ port: 'agent-side', protocol: 'TCP' }],
      to: [
        {
          namespaceSelector: {
            matchLabels: {
              'kubernetes.io/metadata.name': chart.one('Deployment', '-gateway').metadata.namespace,
            },
          },
          podSelector: chart.one('Deployment', '-gateway').spec.selector,
        },
      ],
    });
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

describe('the models of templates', () => {
  const forge = { gitHosts: [{ provider: 'forgejo', url: 'https://forge.example.com:3000' }] };
  const apiServer = { cidrs: ['10.0.0.1/32'] };
  const codex = { enabled: true, image: { repository: 'codex' } };

  it.each<[string, object, readonly number[]]>([
    ['none', {}, [3000]],
    [
      'one at a port',
      { defaultTemplate: { agent: { baseUrl: 'https://m.example.com:8443/v1' } } },
      [3000, 8443],
    ],
    ['one of a vendor', { defaultTemplate: { agent: { model: 'anthropic/claude' } } }, [3000, 443]],
    ['one of an agent', { agents: { codex } }, [3000, 443]],
    [
      'one of an agent at a port',
      { agents: { codex: { ...codex, agent: { baseUrl: 'http://m.example.com:81' } } } },
      [3000, 81],
    ],
    [
      'one of an agent that is off',
      { agents: { codex: { agent: { baseUrl: 'http://m.example.com:81' } } } },
      [3000],
    ],
  ])('give the gateway the public internet at their ports: %s', async (_name, values, ports) => {
    const { gateway } = await render({ apiServer }, { ...forge, ...values });
    expect(openPorts(gateway, '203.0.113.9')).toEqual(ports);
  });

  it.each([{}, closed])(
    'in the cluster and at addresses are open to the gateway: %j',
    async (more) => {
      const values = {
        defaultTemplate: { agent: { baseUrl: 'http://vllm.models.svc:8000/v1' } },
        agents: {
          codex: { ...codex, agent: { baseUrl: 'http://10.9.8.7:8001/v1' } },
          qwen: { ...codex, agent: { baseUrl: 'http://[fd00::7]:8002/v1' } },
        },
        networkPolicies: { apiServer, ...more },
      };
      const chart = await RenderedChart.of(4, { values });
      const rendered = chart.one('NetworkPolicy', '-gateway');
      const gateway = networkPolicySchema.parse(rendered);
      expect(openPorts(gateway, '10.9.8.7')).toEqual([8001]);
      expect(openPorts(gateway, '10.9.8.8')).toEqual([]);
      expect(openPorts(gateway, 'fd00::7')).toEqual([8002]);
      expect(openPorts(gateway, 'fd00::8')).toEqual([]);
      expect(rendered.spec.egress).toContainEqual({
        to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'models' } } }],
      });
    },
  );
});

describe('with a proxy', () => {
  /** The rendered policies, without the internet and with an API server at one address. */
  const renderProxy = async (https: string, more: object = {}) => {
    const networkPolicies = { ...closed, apiServer: { cidrs: ['203.0.113.7/32'] }, ...more };
    const chart = await RenderedChart.of(4, { values: { proxy: { https }, networkPolicies } });
    return ['-operator', '-gateway', '-sandboxes'].map((name) => {
      const policy = chart.one('NetworkPolicy', name) as unknown;
      const parsed = networkPolicySchema.parse(policy);
      return { ports: (address: string) => openPorts(parsed, address), policy };
    });
  };

  it.each([
    ['http://203.0.113.3:3128', '203.0.113.3', 3128],
    ['http://[2001:db8::3]:3128', '2001:db8::3', 3128],
    ['https://203.0.113.3', '203.0.113.3', 443],
    ['http://10.1.2.3/', '10.1.2.3', 80],
  ])('all reach the address and the port of %s, and nothing more', async (url, address, port) => {
    for (const { ports } of await renderProxy(url)) {
      expect(ports(address)).toEqual([port]);
      for (const other of ['203.0.113.4', '2001:db8::4', '10.1.2.4', ...metadataService])
        expect([other, ports(other)]).toEqual([other, []]);
    }
  });

  it('all reach the port of a proxy with a name in private networks, since policies know no names', async () => {
    const [operator, ...without] = await renderProxy('http://proxy.example.com:3128');
    for (const { ports } of without) {
      for (const address of ['10.1.2.3', 'fd00::3']) expect(ports(address)).toEqual([3128]);
      for (const address of [...publicAddresses, ...metadataService, ...privateMetadata])
        expect([address, ports(address)]).toEqual([address, []]);
    }
    // The operator is not closed to the internet.
    expect(operator?.ports('1.1.1.1')).toEqual([3128]);
  });

  it.each(['https://proxy.example.com', 'http://proxy.example.com', 'http://proxy:6443'])(
    'a proxy like %s needs an address, since sandboxes would reach the API server and others at its port',
    async (url) => {
      await expect(renderProxy(url, { apiServer: { ports: [6443] } })).rejects.toThrow(
        'networkPolicies.proxy.to is needed',
      );
      await expect(renderProxy(url, { enabled: false })).rejects.toThrow('of kind NetworkPolicy');
    },
  );

  it('all reach the namespace of a proxy in the cluster', async () => {
    for (const { policy, ports } of await renderProxy('http://proxy.egress.svc:3128')) {
      const matchLabels = { 'kubernetes.io/metadata.name': 'egress' };
      const egress: unknown = expect.arrayContaining([
        { to: [{ namespaceSelector: { matchLabels } }] },
      ]);
      expect(policy).toMatchObject({ spec: { egress } });
      expect(ports('10.1.2.3')).toEqual([]);
    }
  });

  it('all reach what the value names, and nothing of the URL', async () => {
    const proxy = { to: [{ ipBlock: { cidr: '198.51.100.8/32' } }], ports: [8443] };
    for (const { ports } of await renderProxy('http://proxy.example.com:3128', { proxy })) {
      expect(ports('198.51.100.8')).toEqual([8443]);
      expect(ports('10.1.2.3')).toEqual([]);
    }
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
    for (const address of ['169.254.169.254', '169.254.170.23', ...privateMetadata])
      expect([address, operator?.ports(address), gateway?.ports(address)]).toEqual([
        ...[address, [], []],
      ]);
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

describe('the API server', () => {
  const apiServer = async (networkPolicies: object) => {
    const chart = await RenderedChart.of(4, { values: { networkPolicies } });
    return ['-operator', '-gateway'].map((name) =>
      chart
        .one('NetworkPolicy', name)
        .spec.egress.find(({ ports }: Body) => ports?.some(({ port }: Body) => port === 6443)),
    ) as unknown;
  };
  const ports = [443, 6443].map((port) => ({ port, protocol: 'TCP' }));

  // To Cilium no range of addresses means a node.
  it('is anywhere at its ports, without a range of addresses', async () => {
    expect(await apiServer({})).toEqual([{ ports }, { ports }]);
  });

  it('is at its addresses where they are named', async () => {
    const rule = { ports, to: [{ ipBlock: { cidr: '203.0.113.7/32' } }] };
    expect(await apiServer({ apiServer: { cidrs: ['203.0.113.7/32'] } })).toEqual([rule, rule]);
  });
});

describe('names are resolved', () => {
  const dnsOf = async (networkPolicies: object) => {
    const chart = await RenderedChart.of(4, { values: { networkPolicies } });
    return ['-operator', '-gateway', '-sandboxes'].map(
      (name) => chart.one('NetworkPolicy', name).spec.egress[0] as unknown,
    );
  };
  const at = (numbers: readonly number[]) =>
    numbers.flatMap((port) => ['UDP', 'TCP'].map((protocol) => ({ port, protocol })));
  const ofOpenShift = {
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'openshift-dns' } },
    podSelector: { matchLabels: { 'dns.operator.openshift.io/daemonset-dns': 'default' } },
  };

  it('by the pods of most clusters and of OpenShift, whose port is another, without a value', async () => {
    const ofMost = {
      namespaceSelector: {},
      podSelector: { matchLabels: { 'k8s-app': 'kube-dns' } },
    };
    const rule = { ports: at([53, 5353]), to: [ofMost, ofOpenShift] };
    expect(await dnsOf({})).toEqual([rule, rule, rule]);
  });

  it('by what the values name', async () => {
    const to = [{ ipBlock: { cidr: '169.254.20.10/32' } }];
    const rule = { ports: at([1053]), to };
    expect(await dnsOf({ dns: to, dnsPorts: [1053] })).toEqual([rule, rule, rule]);
  });
});

it.each(['operator', 'gateway', 'sandboxes'])(
  'more that the values name is open to the %s, and to nothing else',
  async (name) => {
    const rule = {
      to: [{ namespaceSelector: { matchLabels: { team: 'tools' } } }],
      ports: [{ port: 8080, protocol: 'TCP' }],
    };
    const chart = await RenderedChart.of(4, {
      values: { networkPolicies: { [name]: { extraEgress: [rule] } } },
    });
    for (const each of ['operator', 'gateway', 'sandboxes'])
      expect([
        each,
        chart
          .one('NetworkPolicy', `-${each}`)
          .spec.egress.some(({ to }: Body) => JSON.stringify(to) === JSON.stringify(rule.to)),
      ]).toEqual([each, each === name]);
  },
);

describe('where the values ask for policies of Cilium', () => {
  const names = ['-operator', '-gateway'] as const;
  const renderCilium = ({ cilium = {}, ...policies }: Body = {}, values: object = {}) =>
    RenderedChart.of(4, {
      values: { ...values, networkPolicies: { ...policies, cilium: { enabled: true, ...cilium } } },
      apiVersions: ['cilium.io/v2'],
    });
  /** Names and addresses that the operator and the gateway reach, as host:port. */
  const hostsOf = (chart: RenderedChart) =>
    names.map((name) =>
      chart
        .one('CiliumNetworkPolicy', name)
        .spec.egress.flatMap(({ toFQDNs = [], toCIDR = [], toPorts }: Body) => {
          const hosts = toFQDNs.map(
            ({ matchName, matchPattern }: Body) => matchName ?? matchPattern,
          );
          return [...hosts, ...toCIDR].map((host) => `${host}:${toPorts[0].ports[0].port}`);
        }),
    ) as unknown;

  it('they mean the pods of the operator and of the gateway', async () => {
    const chart = await renderCilium();
    expect(chart.all('CiliumNetworkPolicy')).toHaveLength(2);
    for (const name of names)
      expect(chart.one('CiliumNetworkPolicy', name).spec.endpointSelector).toEqual(
        chart.one('NetworkPolicy', name).spec.podSelector,
      );
  });

  it('they name the proxy where it has a name, and nothing opens private networks for it', async () => {
    const proxy = { https: 'http://proxy.example.com:3128', http: 'http://proxy.example.com:3129' };
    const chart = await renderCilium({}, { proxy });
    for (const hosts of hostsOf(chart) as readonly (readonly string[])[])
      expect(hosts).toEqual(
        expect.arrayContaining(['proxy.example.com:3128', 'proxy.example.com:3129']),
      );
    for (const name of names)
      expect(JSON.stringify(chart.one('NetworkPolicy', name).spec.egress)).not.toMatch(
        /"port":(?:3128|3129)/,
      );
    const address = await renderCilium({}, { proxy: { https: 'http://203.0.113.3:3128' } });
    expect(JSON.stringify(hostsOf(address))).not.toContain('203.0.113.3');
    for (const name of names)
      expect(JSON.stringify(address.one('NetworkPolicy', name).spec.egress)).toContain(
        '203.0.113.3/32',
      );
  });

  it('they name the API server by its entity, and nothing opens its ports elsewhere', async () => {
    const chart = await renderCilium();
    for (const name of names) {
      expect(chart.one('CiliumNetworkPolicy', name).spec.egress[0]).toEqual({
        toEntities: ['kube-apiserver'],
        toPorts: [{ ports: ['443', '6443'].map((port) => ({ port, protocol: 'TCP' })) }],
      });
      const policy = networkPolicySchema.parse(chart.one('NetworkPolicy', name));
      for (const address of [...publicAddresses, '10.0.0.1'])
        expect([address, openPorts(policy, address)]).toEqual([address, []]);
    }
  });

  it('the gateway reaches the git hosts and their APIs by their names, and the operator none', async () => {
    expect(hostsOf(await renderCilium())).toEqual([
      [],
      ['github.com:443', 'gitlab.com:443', 'bitbucket.org:443', 'api.github.com:443'],
    ]);
    const values = {
      gitHosts: [
        { provider: 'github', url: 'https://github.example.com' },
        { provider: 'forgejo', url: 'http://[fd00::7]:3000/git' },
        { provider: 'gitlab', url: 'http://10.0.0.7' },
      ],
      gateway: { gitApiUrls: { github: 'https://api.github.example.com:8443/v3' } },
    };
    expect(hostsOf(await renderCilium({}, values))).toEqual([
      [],
      [
        'github.example.com:443',
        'fd00::7/128:3000',
        '10.0.0.7/32:80',
        'api.github.example.com:8443',
      ],
    ]);
  });

  it('the gateway reaches the models of templates', async () => {
    const image = { repository: 'agent' };
    const values = {
      gitHosts: [{ provider: 'forgejo', url: 'https://forge.example.com' }],
      defaultTemplate: { agent: { allowedModels: ['openai/*', 'gemini/*', 'groq/*'] } },
      agents: {
        claude: { enabled: true, image },
        qwen: { enabled: true, image, agent: { baseUrl: 'https://m.example.com:8443/v1' } },
        kimi: { enabled: true, image, agent: { baseUrl: 'http://vllm.models.svc:8000/v1' } },
      },
    };
    expect(hostsOf(await renderCilium({}, values))).toEqual([
      [],
      [
        'forge.example.com:443',
        'api.openai.com:443',
        'generativelanguage.googleapis.com:443',
        'api.anthropic.com:443',
        'm.example.com:8443',
      ],
    ]);
  });

  it('the gateway without the internet reaches what is named for it, and no git host', async () => {
    const cilium = { gatewayHosts: ['*.example.com', 'git.example.com:8443'] };
    expect(hostsOf(await renderCilium({ cilium, gateway: { internet: false } }))).toEqual([
      [],
      ['*.example.com:443', 'git.example.com:8443'],
    ]);
  });

  it.each([
    [
      'the bucket of AWS in its region, and what gives credentials',
      { bucket: 'history', region: 'eu-central-1' },
      [
        'history.s3.eu-central-1.amazonaws.com:443',
        's3.eu-central-1.amazonaws.com:443',
        'sts.amazonaws.com:443',
        'sts.eu-central-1.amazonaws.com:443',
      ],
    ],
    [
      'the bucket in a region that only the platform names',
      { bucket: 'history', secretName: 'keys' },
      ['history.s3.*.amazonaws.com:443', 's3.*.amazonaws.com:443'],
    ],
    [
      'the endpoint',
      { bucket: 'history', endpoint: 'https://s3.example.com:9000/store', secretName: 'keys' },
      ['s3.example.com:9000'],
    ],
    [
      'the endpoint with the bucket before it',
      {
        bucket: 'history',
        endpoint: 'https://s3.example.com',
        pathStyle: false,
        secretName: 'keys',
      },
      ['history.s3.example.com:443'],
    ],
    [
      'no name of a Service of the cluster, whose namespace is open',
      { bucket: 'history', endpoint: 'http://minio.storage.svc:9000', secretName: 'keys' },
      [],
    ],
  ])('both reach of an archive %s', async (_name, s3, expected) => {
    const gitHosts = [{ provider: 'gitlab', url: 'https://git.example.com' }];
    const chart = await renderCilium({}, { archive: { s3 }, gitHosts });
    expect(hostsOf(chart)).toEqual([expected, [...expected, 'git.example.com:443']]);
    for (const name of names)
      expect(
        openPorts(networkPolicySchema.parse(chart.one('NetworkPolicy', name)), '1.1.1.1'),
      ).toEqual([]);
  });

  it('names are resolved by the same pods, through the proxy that learns addresses', async () => {
    const dns = [
      {
        namespaceSelector: { matchLabels: { team: 'names' } },
        podSelector: {
          matchLabels: { app: 'dns' },
          matchExpressions: [{ key: 'tier', operator: 'In', values: ['a'] }],
        },
      },
      { namespaceSelector: {} },
      { ipBlock: { cidr: '169.254.20.10/32' } },
    ];
    const chart = await renderCilium({ dns, dnsPorts: [53] });
    const toPorts = [
      { ports: [{ port: '53', protocol: 'ANY' }], rules: { dns: [{ matchPattern: '*' }] } },
    ];
    for (const name of names)
      expect(chart.one('CiliumNetworkPolicy', name).spec.egress.slice(1, 4)).toEqual([
        {
          toEndpoints: [
            {
              matchLabels: { 'k8s:app': 'dns', 'k8s:io.cilium.k8s.namespace.labels.team': 'names' },
              matchExpressions: [{ key: 'k8s:tier', operator: 'In', values: ['a'] }],
            },
          ],
          toPorts,
        },
        {
          toEndpoints: [
            { matchExpressions: [{ key: 'k8s:io.kubernetes.pod.namespace', operator: 'Exists' }] },
          ],
          toPorts,
        },
        { toCIDRSet: [{ cidr: '169.254.20.10/32' }], toPorts },
      ]);
  });

  it('names are resolved in the cluster alone for a gateway without the internet', async () => {
    const chart = await renderCilium({ dns: [], gateway: { internet: false } });
    expect(
      names.map(
        (name) => chart.one('CiliumNetworkPolicy', name).spec.egress[1].toEntities as unknown,
      ),
    ).toEqual([['cluster', 'world'], ['cluster']]);
  });

  it.each([
    [
      'on a cluster that does not serve the kind',
      {},
      [],
      'networkPolicies.cilium.enabled needs a cluster that serves cilium.io/v2, and this one does not',
    ],
    [
      'without the policies that close everything else',
      { enabled: false },
      ['cilium.io/v2'],
      'networkPolicies.cilium.enabled needs networkPolicies.enabled',
    ],
  ])('the chart is refused %s', async (_name, more, apiVersions, message) => {
    const values = { networkPolicies: { ...more, cilium: { enabled: true } } };
    await expect(RenderedChart.of(4, { values, apiVersions })).rejects.toThrow(message);
  });
});
