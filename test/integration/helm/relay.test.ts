/* oxlint-disable
  @typescript-eslint/no-unsafe-member-access,
  @typescript-eslint/no-unsafe-assignment,
  @typescript-eslint/no-unsafe-call,
  @typescript-eslint/no-unsafe-return --
  Resources are of every kind; a wrong guess fails the test. */
import {
  readGatewayConfig,
  readOperatorConfig,
  readRelayConfig,
} from '../../../src/config/cluster.ts';
import { networkPolicySchema, openPorts } from '../../support/egress.ts';
import type { Body } from '../../support/plane.ts';
import { RenderedChart } from '../../support/rendered-chart.ts';
import { valueSets } from './value-sets.ts';

const prices = [{ model: 'm', inputPerMillion: 1, outputPerMillion: 2 }];
const keys = { agentCredentials: { existingSecret: 'models' }, models: { prices } };
const render = (values: object = {}, apiVersions: readonly string[] = []) =>
  RenderedChart.of(4, { values: { ...keys, ...values }, apiVersions });
const apart = { relay: { replicas: 2 } };
const podOf = (chart: RenderedChart, component: string): Body =>
  chart.one('Deployment', `-${component}`).spec.template;

/** The Deployments that mount the keys of models. */
const mounting = (chart: RenderedChart) =>
  chart
    .all('Deployment')
    .filter((deployment: Body) => JSON.stringify(deployment).includes('"secretName":"models"'))
    .map(({ metadata }: Body) => metadata.name.replace('conversation-operator-', ''))
    .toSorted();

/** The Deployments whose pods the Service selects. */
const selectedBy = (chart: RenderedChart, service: string): readonly string[] => {
  const { selector } = chart.one('Service', service).spec;
  const wanted = Object.entries<string>(selector as Readonly<Record<string, string>>);
  return chart
    .all('Deployment')
    .filter(({ spec }: Body) =>
      wanted.every(([key, value]) => spec.template.metadata.labels[key] === value),
    )
    .map(({ metadata }: Body) => metadata.name.replace('conversation-operator-', ''));
};

describe('the relay for models', () => {
  it('is at the gateway by default, which alone has the keys beside the operator', async () => {
    for (const values of [{}, { relay: { replicas: 0 } }, { relay: { replicas: null } }]) {
      const chart = await render(values);
      expect(mounting(chart)).toEqual(['gateway', 'operator']);
      expect(selectedBy(chart, '-models')).toEqual(['gateway']);
      expect(readGatewayConfig(chart.environment('-gateway'))).toMatchObject({
        MODEL_RELAY: true,
        AGENT_CREDENTIALS_DIR: '/etc/conversation-operator/agent-credentials',
        MODELS_PRICES: prices,
      });
      expect(JSON.stringify(chart.resources)).not.toMatch(/-relay"|component":"relay"/);
    }
  });

  it('is a Deployment of its own with replicas, which has the keys instead of the gateway', async () => {
    const chart = await render(apart);
    expect(chart.one('Deployment', '-relay').spec.replicas).toBe(2);
    expect(mounting(chart)).toEqual(['operator', 'relay']);
    expect(selectedBy(chart, '-models')).toEqual(['relay']);
    expect(selectedBy(chart, '-agent-side')).toEqual(['gateway']);
    const gateway = readGatewayConfig(chart.environment('-gateway'));
    expect(gateway).toMatchObject({ MODEL_RELAY: false, MODELS_PRICES: [] });
    expect(gateway.AGENT_CREDENTIALS_DIR).toBeUndefined();
    expect(readRelayConfig(chart.environment('-relay'))).toMatchObject({
      NAMESPACE: 'agents-sandboxes',
      AGENT_CREDENTIALS_DIR: '/etc/conversation-operator/agent-credentials',
      MODELS_PRICES: prices,
      AGENT_SIDE_PORT: 3001,
      DRAIN_SECONDS: 5,
    });
    // The URL of a git host may have a password.
    expect(chart.environment('-relay')).not.toHaveProperty('GIT_HOSTS');
    expect(podOf(chart, 'relay').spec.containers[0].args).toEqual(['relay']);
  });

  it('keeps its address when it moves, so that running agents need no other one', async () => {
    const addresses = await Promise.all(
      [{}, apart].map(async (values) => {
        const chart = await render(values);
        const { metadata, spec } = chart.one('Service', '-models');
        const { MODEL_RELAY_URL } = readOperatorConfig(chart.environment('-operator'));
        expect(MODEL_RELAY_URL).toBe(`http://${metadata.name}.${metadata.namespace}.svc`);
        const [{ port, targetPort }] = spec.ports;
        expect(port).toBe(80);
        for (const component of selectedBy(chart, '-models'))
          expect(podOf(chart, component).spec.containers[0].ports).toContainEqual({
            name: targetPort,
            containerPort: 3001,
          });
        return MODEL_RELAY_URL;
      }),
    );
    expect(new Set(addresses).size).toBe(1);
  });

  it('has the settings of pods that the values name', async () => {
    const chart = await RenderedChart.of(4, {
      values: valueSets['everything that is optional'] ?? {},
    });
    expect(chart.one('Deployment', '-relay').spec.replicas).toBe(3);
    const { metadata, spec } = podOf(chart, 'relay');
    expect(metadata).toMatchObject({ labels: { c: 'd' }, annotations: { a: 'b' } });
    expect(spec).toMatchObject({
      imagePullSecrets: [{ name: 'registry' }],
      nodeSelector: { pool: 'system' },
      priorityClassName: 'high',
      topologySpreadConstraints: [{ topologyKey: 'kubernetes.io/hostname' }],
    });
    expect(readRelayConfig(chart.environment('-relay'))).toMatchObject({
      DRAIN_SECONDS: 10,
      HTTPS_PROXY: 'http://proxy:3128',
    });
    const lasts = spec.terminationGracePeriodSeconds as number;
    expect(lasts).toBeGreaterThan(15 + 5 + 5);
    expect(chart.one('ServiceAccount', '-relay').metadata.annotations).toEqual({ a: 'b' });
  });
});

describe('the network policies with a relay of its own', () => {
  const closed = { gateway: { internet: false }, relay: { internet: false } };
  const apiServer = { cidrs: ['203.0.113.7/32'] };
  const models = {
    defaultTemplate: { agent: { baseUrl: 'http://vllm.models.svc:8000/v1' } },
    agents: {
      codex: {
        enabled: true,
        image: { repository: 'codex' },
        agent: { baseUrl: 'http://10.9.8.7:8001/v1' },
      },
      qwen: {
        enabled: true,
        image: { repository: 'qwen' },
        agent: { baseUrl: 'https://m.example.com:8443/v1' },
      },
    },
    gitHosts: [{ provider: 'forgejo', url: 'https://forge.example.com:3000' }],
  };
  const policyOf = (chart: RenderedChart, name: string) => {
    const policy = chart.one('NetworkPolicy', name);
    const parsed = networkPolicySchema.parse(policy);
    return { policy, ports: (address: string) => openPorts(parsed, address) };
  };
  const ofModels = {
    to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'models' } } }],
  };

  it('let the relay reach the API server and models, and the gateway models no more', async () => {
    const chart = await render({ ...apart, ...models, networkPolicies: { apiServer } });
    const [relay, gateway] = [policyOf(chart, '-relay'), policyOf(chart, '-gateway')];
    expect(relay.ports('203.0.113.9')).toEqual([443, 8443]);
    expect(gateway.ports('203.0.113.9')).toEqual([3000]);
    expect([relay.ports('10.9.8.7'), gateway.ports('10.9.8.7')]).toEqual([[8001], []]);
    expect(relay.policy.spec.egress).toContainEqual(ofModels);
    expect(gateway.policy.spec.egress).not.toContainEqual(ofModels);
    expect(relay.ports('203.0.113.7')).toEqual(expect.arrayContaining([443, 6443]));
    for (const address of ['169.254.169.254', 'fd00:ec2::254', '10.0.0.1'])
      expect([address, relay.ports(address)]).toEqual([address, []]);
    // Neither sandboxes nor other processes are there to be reached.
    expect(JSON.stringify(relay.policy.spec.egress)).not.toMatch(
      /podSelector":{"match(?!Labels":{"(k8s-app|dns\.))/,
    );
  });

  it('close the public internet to the relay where the values say so, and open what they name', async () => {
    const rule = { to: [{ ipBlock: { cidr: '198.51.100.8/32' } }], ports: [{ port: 4000 }] };
    const networkPolicies = {
      ...closed,
      apiServer,
      relay: { internet: false, extraEgress: [rule] },
    };
    const chart = await render({ ...apart, ...models, networkPolicies });
    const relay = policyOf(chart, '-relay');
    expect(relay.ports('203.0.113.9')).toEqual([]);
    expect(relay.ports('198.51.100.8')).toEqual([4000]);
    expect(policyOf(chart, '-gateway').ports('198.51.100.8')).toEqual([]);
    expect(relay.policy.spec.egress).toContainEqual(ofModels);
  });

  it('let sandboxes reach the relay and the gateway at their callback servers, and only sandboxes reach it', async () => {
    const chart = await render({ ...apart, networkPolicies: { sandboxes: { internet: false } } });
    const { egress, podSelector } = chart.one('NetworkPolicy', '-sandboxes').spec;
    const callbacks = egress.filter(({ ports }: Body) =>
      ports?.some(({ port }: Body) => port === 'agent-side'),
    );
    expect(callbacks).toHaveLength(1);
    expect(callbacks[0].to).toEqual(
      ['-gateway', '-relay'].map((name) => ({
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'agents' } },
        podSelector: chart.one('NetworkPolicy', name).spec.podSelector,
      })),
    );
    const { ingress } = chart.one('NetworkPolicy', '-relay').spec;
    expect(ingress.map(({ ports }: Body) => ports[0].port)).toEqual(['agent-side', 'metrics']);
    expect(ingress[0].from).toEqual([
      {
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'agents-sandboxes' } },
        podSelector,
      },
    ]);
  });

  it('of Cilium name the models for the relay and no longer for the gateway', async () => {
    const cilium = { enabled: true, relayHosts: ['llm.example.com:4000'] };
    const values = { ...apart, ...models, networkPolicies: { cilium } };
    const chart = await render(values, ['cilium.io/v2']);
    const hostsOf = (name: string) =>
      chart
        .one('CiliumNetworkPolicy', name)
        .spec.egress.flatMap(({ toFQDNs = [], toPorts }: Body) =>
          toFQDNs.map(({ matchName }: Body) => `${matchName}:${toPorts[0].ports[0].port}`),
        ) as readonly string[];
    expect(hostsOf('-relay')).toEqual(['m.example.com:8443', 'llm.example.com:4000']);
    expect(hostsOf('-gateway')).toEqual(['forge.example.com:3000']);
    expect(policyOf(chart, '-relay').ports('203.0.113.9')).toEqual([]);
    const { endpointSelector } = chart.one('CiliumNetworkPolicy', '-relay').spec;
    expect(endpointSelector).toEqual(chart.one('NetworkPolicy', '-relay').spec.podSelector);
  });

  it('let the relay use the proxy of the installation, and not the store of archives', async () => {
    const values = {
      ...apart,
      proxy: { https: 'http://203.0.113.3:3128' },
      archive: { s3: { bucket: 'history', endpoint: 'http://198.51.100.9:9000', secretName: 's' } },
      networkPolicies: { ...closed, apiServer },
    };
    const { ports } = policyOf(await render(values), '-relay');
    expect(ports('203.0.113.3')).toEqual([3128]);
    expect(ports('198.51.100.9')).toEqual([]);
  });
});
