import { kubectl } from '../../e2e/support/cluster.ts';
import { release } from '../../e2e/support/installation.ts';
import { eventually } from '../../support/eventually.ts';
import type { RestUser } from '../../support/rest-user.ts';
import type { StartTask } from '../../../src/gateway/presenters/start-task.ts';
import { sources, type Connection, type Source, type Target } from './connections.ts';
import { firstUser, namespace, podOf, sandboxes, stranger, strangerPort } from './installation.ts';
import { addresses, gitPort, modelHost, modelPort, proxyPort, publicHost } from './places.ts';
import { probe, type Attempt } from './probe.ts';

const ports = {
  apiServer: 6443,
  kubelet: 10250,
  otherPublic: 9090,
  agent: 8000,
  rest: 3000,
  callback: 3001,
  metrics: 9464,
  notifications: 8082,
};

const callbackName = `${release}-agent-side.${namespace}.svc`;
const relayName = `${release}-models.${namespace}.svc`;

/** Two conversations of an installation, one with a repository, and the pods around them. */
export class Scene {
  readonly starts: readonly StartTask[];
  readonly #user: RestUser;

  private constructor(starts: readonly StartTask[], user: RestUser) {
    this.starts = starts;
    this.#user = user;
  }

  get #conversation(): string {
    return this.starts[0]?.app_conversation_id ?? '';
  }

  static async begin(): Promise<Scene> {
    // The operator makes it shortly after the install.
    const template = `--namespace ${sandboxes} sandboxtemplate/default --timeout 60s`;
    await kubectl(`wait --for create ${template}`);
    await kubectl(`wait --for condition=Valid ${template}`);
    const user = await firstUser();
    const { name: gateway } = await componentPod('gateway');
    // The DNS of the test learns of a new Service when it reads the Services again.
    await eventually('the name of the callback server', async () => {
      const [outcome] = await probe(namespace, gateway, [{ host: callbackName }]);
      return outcome === 'open';
    });
    const tasks = await Promise.all([
      user.start('Hello.'),
      user.start('Hello.', { selected_repository: 'acme/shop' }),
    ]);
    return new Scene(await Promise.all(tasks.map(({ id }) => user.over(id))), user);
  }

  /** The outcome of each connection: open, or the code of the failure. */
  async outcomes(connections: readonly Connection[]): Promise<ReadonlyMap<Connection, string>> {
    const [from, to] = await Promise.all([this.#pods(), this.#attempts()]);
    const found = await Promise.all(
      sources.map(async (source) => {
        const rows = connections.filter((each) => each.from === source);
        if (rows.length === 0) return [];
        const { in: of, pod } = from[source];
        const outcomes = await probe(
          of,
          pod,
          rows.map((row) => to[row.to]),
        );
        return rows.map((row, index) => [row, outcomes[index] ?? ''] as const);
      }),
    );
    return new Map(found.flat());
  }

  /** Waits until the conversation without a repository has an event with this text. */
  async hears(text: string): Promise<void> {
    const path = `/api/v1/conversation/${this.#conversation}/events/search?limit=100`;
    await eventually(`"${text}"`, async () => {
      const { body } = await this.#user.call('GET', path);
      return JSON.stringify(body).includes(text);
    });
  }

  /** Sends the same conversation a message. */
  async say(text: string): Promise<void> {
    const path = `/api/v1/app-conversations/${this.#conversation}/send-message`;
    const message = { role: 'user', content: [{ type: 'text', text }], run: true };
    const { status } = await this.#user.call('POST', path, message);
    if (status !== 200) throw new Error(`the message got the status ${status}`);
  }

  async #pods(): Promise<Readonly<Record<Source, { readonly in: string; readonly pod: string }>>> {
    const [operator, gateway, relay] = await componentPods();
    return {
      sandbox: { in: sandboxes, pod: this.starts[0]?.sandbox_id ?? '' },
      operator: { in: namespace, pod: operator.name },
      gateway: { in: namespace, pod: gateway.name },
      relay: { in: namespace, pod: relay.name },
      stranger: { in: stranger, pod: stranger },
    };
  }

  async #attempts(): Promise<Readonly<Record<Target, Attempt>>> {
    const serviceOf = (name: string) =>
      kubectl(`-n ${namespace} get service ${name} -o jsonpath={.spec.clusterIP}`);
    const ofPod = (of: string, name: string) =>
      kubectl(`-n ${of} get pod ${name} -o jsonpath={.status.podIP}`);
    const apiServer = await kubectl('get service kubernetes -o jsonpath={.spec.clusterIP}');
    const node = await kubectl('get node node1 -o jsonpath={.status.addresses[0].address}');
    const [[operator, gateway, relay], agent, other, rest, callback] = await Promise.all([
      componentPods(),
      // Another one than that of the connections from a sandbox.
      ofPod(sandboxes, this.starts[1]?.sandbox_id ?? ''),
      ofPod(stranger, stranger),
      serviceOf(`${release}-gateway`),
      serviceOf(`${release}-agent-side`),
    ]);
    return {
      'a name': { host: `${release}-gateway.${namespace}` },
      'the API server by its Service': { host: apiServer, port: 443 },
      'the API server by the address of the node': { host: node, port: ports.apiServer },
      'the kubelet': { host: node, port: ports.kubelet },
      'the metadata service of the cloud': { host: addresses.metadata, port: 80 },
      'the git host by its name': { host: publicHost, port: gitPort },
      'the git host at another port': { host: publicHost, port: ports.otherPublic },
      'the proxy': { host: addresses.proxy, port: proxyPort },
      'a host of a private network': { host: addresses.privateHost, port: gitPort },
      'the agent of a sandbox': { host: agent, port: ports.agent },
      'the REST service by its Service': { host: rest, port: 80 },
      'the REST service by its pod': { host: gateway.address, port: ports.rest },
      'the callback server by its Service': { host: callback, port: 80 },
      'the callback server by its name': { host: callbackName, port: 80 },
      'the callback server by its pod': { host: gateway.address, port: ports.callback },
      'the metrics of the gateway': { host: gateway.address, port: ports.metrics },
      'the metrics of the operator': { host: operator.address, port: ports.metrics },
      'the notifications of the operator': { host: operator.address, port: ports.notifications },
      'the relay by its name': { host: relayName, port: 80 },
      'the relay by its pod': { host: relay.address, port: ports.callback },
      'the metrics of the relay': { host: relay.address, port: ports.metrics },
      'the model by its name': { host: modelHost, port: modelPort },
      'a pod of another namespace': { host: other, port: strangerPort },
    };
  }
}

const componentPod = (component: string) =>
  podOf(namespace, `app.kubernetes.io/component=${component}`);

/** The pods of the operator, the gateway and what serves the relay. */
async function componentPods() {
  const [operator, gateway] = await Promise.all([
    componentPod('operator'),
    componentPod('gateway'),
  ]);
  const relay = await podOf(namespace, 'conversation-operator.dev/serves=models');
  return [operator, gateway, relay] as const;
}
