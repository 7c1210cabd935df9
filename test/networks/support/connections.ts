/** The pod that opens a connection: of the release, of an agent, or of another namespace. */
export const sources = ['sandbox', 'operator', 'gateway', 'relay', 'stranger'] as const;
export type Source = (typeof sources)[number];

/** Targets of connections. A name is resolved, and nothing more. */
export const targets = [
  'a name',
  'the API server by its Service',
  'the API server by the address of the node',
  'the kubelet',
  'the metadata service of the cloud',
  'the git host by its name',
  'the git host at another port',
  'the proxy',
  'a host of a private network',
  'the agent of a sandbox',
  'the REST service by its Service',
  'the REST service by its pod',
  'the callback server by its Service',
  'the callback server by its name',
  'the callback server by its pod',
  'the metrics of the gateway',
  'the metrics of the operator',
  'the notifications of the operator',
  'the relay by its name',
  'the relay by its pod',
  'the metrics of the relay',
  'the model by its name',
  'a pod of another namespace',
] as const;
export type Target = (typeof targets)[number];

export interface Connection {
  readonly from: Source;
  readonly to: Target;
  readonly isPermitted: boolean;
}

type Table = Readonly<Partial<Record<Source, Partial<Record<Target, 'yes' | 'no'>>>>>;

/** Connections under the chart's default policies, with a relay of its own. */
const byDefault: Table = {
  sandbox: {
    'a name': 'yes',
    'the API server by its Service': 'no',
    'the API server by the address of the node': 'no',
    'the kubelet': 'no',
    'the metadata service of the cloud': 'no',
    'the git host by its name': 'yes',
    'the git host at another port': 'yes',
    'the proxy': 'yes',
    'a host of a private network': 'no',
    'the agent of a sandbox': 'no',
    'the REST service by its Service': 'no',
    'the REST service by its pod': 'no',
    'the callback server by its Service': 'yes',
    'the callback server by its name': 'yes',
    'the metrics of the gateway': 'no',
    'the metrics of the operator': 'no',
    'the notifications of the operator': 'no',
    'the relay by its name': 'yes',
    'the metrics of the relay': 'no',
    'a pod of another namespace': 'no',
  },
  operator: {
    'a name': 'yes',
    'the API server by its Service': 'yes',
    'the API server by the address of the node': 'yes',
    'the kubelet': 'no',
    'the metadata service of the cloud': 'no',
    'the git host by its name': 'no',
    'the git host at another port': 'no',
    'the proxy': 'no',
    'a host of a private network': 'no',
    'the agent of a sandbox': 'yes',
    'the REST service by its pod': 'no',
    'the callback server by its pod': 'no',
    'the metrics of the gateway': 'no',
    'the relay by its pod': 'no',
    'the metrics of the relay': 'no',
    'the model by its name': 'no',
    'a pod of another namespace': 'no',
  },
  gateway: {
    'a name': 'yes',
    'the API server by its Service': 'yes',
    'the kubelet': 'no',
    'the metadata service of the cloud': 'no',
    'the git host by its name': 'yes',
    'the git host at another port': 'no',
    'the proxy': 'no',
    'a host of a private network': 'no',
    'the agent of a sandbox': 'yes',
    'the metrics of the operator': 'no',
    'the notifications of the operator': 'yes',
    'the relay by its pod': 'no',
    'the metrics of the relay': 'no',
    'the model by its name': 'no',
    'a pod of another namespace': 'no',
  },
  relay: {
    'a name': 'yes',
    'the API server by its Service': 'yes',
    'the API server by the address of the node': 'yes',
    'the kubelet': 'no',
    'the metadata service of the cloud': 'no',
    'the git host by its name': 'no',
    'the git host at another port': 'no',
    'the proxy': 'no',
    'a host of a private network': 'no',
    'the agent of a sandbox': 'no',
    'the REST service by its pod': 'no',
    'the callback server by its pod': 'no',
    'the metrics of the gateway': 'no',
    'the metrics of the operator': 'no',
    'the notifications of the operator': 'no',
    'the model by its name': 'yes',
    'a pod of another namespace': 'no',
  },
  stranger: {
    'the agent of a sandbox': 'no',
    'the REST service by its Service': 'yes',
    'the REST service by its pod': 'yes',
    'the callback server by its pod': 'no',
    'the metrics of the gateway': 'yes',
    'the metrics of the operator': 'yes',
    'the notifications of the operator': 'no',
    'the relay by its name': 'no',
    'the relay by its pod': 'no',
    'the metrics of the relay': 'yes',
  },
};

/** Differences without the internet, and with the other namespace in each extraEgress. */
const whenClosed: Table = {
  sandbox: {
    'the git host by its name': 'no',
    'the git host at another port': 'no',
    'the proxy': 'no',
    'a pod of another namespace': 'yes',
  },
  operator: { 'a pod of another namespace': 'yes' },
  gateway: { 'the git host by its name': 'no', 'a pod of another namespace': 'yes' },
  relay: { 'the model by its name': 'no', 'a pod of another namespace': 'yes' },
};

/** Differences with a proxy, and with nothing else outside. */
const whenProxied: Table = {
  sandbox: {
    'the git host by its name': 'no',
    'the git host at another port': 'no',
    'the proxy': 'yes',
  },
  operator: { 'the proxy': 'yes' },
  gateway: { 'the git host by its name': 'no', 'the proxy': 'yes' },
  relay: { 'the model by its name': 'no', 'the proxy': 'yes' },
};

/** Differences where the gateway serves the relay. */
const whenGatewayServes: Table = { gateway: { 'the model by its name': 'yes' } };

const rowsOf = (table: Table): readonly Connection[] =>
  sources.flatMap((from) =>
    targets.flatMap((to) => {
      const verdict = table[from]?.[to];
      return verdict === undefined ? [] : [{ from, to, isPermitted: verdict === 'yes' }];
    }),
  );

/** Targets that only a relay of its own has. */
const ofRelayPods: readonly Target[] = ['the relay by its pod', 'the metrics of the relay'];
const differingBy = (differences: Table): readonly Connection[] =>
  connections.map((each) => {
    const verdict = differences[each.from]?.[each.to];
    return verdict === undefined ? each : { ...each, isPermitted: verdict === 'yes' };
  });
const withoutRelay = (table: readonly Connection[]): readonly Connection[] =>
  table.filter(({ from, to }) => from !== 'relay' && !ofRelayPods.includes(to));

export const connections = rowsOf(byDefault);
export const closedConnections = differingBy(whenClosed);
export const proxiedConnections = differingBy(whenProxied);
export const openConnections: readonly Connection[] = connections.map((each) => ({
  ...each,
  isPermitted: true,
}));
/** Connections of installations whose gateway serves the relay. */
export const gatewayConnections = withoutRelay(differingBy(whenGatewayServes));
export const closedGatewayConnections = withoutRelay(closedConnections);
