import { randomBytes } from 'node:crypto';
import { loadConnection } from '../../../../kube/src/kubeconfig.ts';
import { crds, type Definition } from '../../../../../test/support/crds.ts';
import { eventually } from '../../../../../test/support/eventually.ts';
import { runApiServer } from '../../../../../test/support/api-server.ts';
import { kubectl, type KubectlResult } from '../../../../../test/support/kubectl.ts';
import { RawClient, type Reply, type RequestOptions } from './raw-client.ts';
import { forgetHistory } from './compaction.ts';
import type { Watch } from './watch.ts';
import { widgetDefinition } from './widgets.ts';

const group = 'conversation-operator.dev/v1alpha1';

/** The server under test: the one of $CONFORMANCE_KUBECONFIG, else an embedded one. */
export class Server {
  readonly #client: RawClient;
  readonly #kubeconfig: string;
  readonly #forget: (() => Promise<void>) | undefined;
  readonly namespace: string;
  readonly widgetGroup: string;

  constructor(options: {
    readonly client: RawClient;
    readonly kubeconfig: string;
    readonly namespace: string;
    readonly widgetGroup: string;
    readonly forget: (() => Promise<void>) | undefined;
  }) {
    this.#client = options.client;
    this.#kubeconfig = options.kubeconfig;
    this.#forget = options.forget;
    this.namespace = options.namespace;
    this.widgetGroup = options.widgetGroup;
  }

  /** Paths of collections and objects in this file's own namespace; `part` is a subresource. */
  readonly core = (plural: string, name?: string, part?: string): string =>
    this.#path('/api/v1', plural, name, part);
  readonly product = (plural: string, name?: string, part?: string): string =>
    this.#path(`/apis/${group}`, plural, name, part);
  readonly leases = (name?: string): string =>
    this.#path('/apis/coordination.k8s.io/v1', 'leases', name);
  readonly widgets = (name?: string, part?: string): string =>
    this.#path(`/apis/${this.widgetGroup}/v1`, 'widgets', name, part);

  #path(root: string, plural: string, name?: string, part?: string): string {
    return [root, 'namespaces', this.namespace, plural, name, part]
      .filter((segment) => segment !== undefined)
      .join('/');
  }

  /** A widget with what it must have, and what is given. */
  readonly widget = (name: string, spec: object = {}, metadata: object = {}): object => ({
    apiVersion: `${this.widgetGroup}/v1`,
    kind: 'Widget',
    metadata: { name, ...metadata },
    spec: { color: 'green', ...spec },
  });

  get = (path: string, options?: RequestOptions): Promise<Reply> =>
    this.#client.send('GET', path, options);
  post = (path: string, body: unknown, options?: RequestOptions): Promise<Reply> =>
    this.#client.send('POST', path, { body, ...options });
  put = (path: string, body: unknown, options?: RequestOptions): Promise<Reply> =>
    this.#client.send('PUT', path, { body, ...options });
  delete = (path: string, body?: unknown, options?: RequestOptions): Promise<Reply> =>
    this.#client.send('DELETE', path, { ...(body === undefined ? {} : { body }), ...options });
  send = (...args: Parameters<RawClient['send']>): Promise<Reply> => this.#client.send(...args);

  mergePatch = (path: string, body: unknown, options?: RequestOptions): Promise<Reply> =>
    this.#client.send('PATCH', path, {
      body,
      contentType: 'application/merge-patch+json',
      ...options,
    });
  jsonPatch = (path: string, body: unknown, options?: RequestOptions): Promise<Reply> =>
    this.#client.send('PATCH', path, {
      body,
      contentType: 'application/json-patch+json',
      ...options,
    });
  strategicPatch = (path: string, body: unknown, options?: RequestOptions): Promise<Reply> =>
    this.#client.send('PATCH', path, {
      body,
      contentType: 'application/strategic-merge-patch+json',
      ...options,
    });

  watch = (path: string, query?: RequestOptions['query']): Promise<Watch> =>
    this.#client.watch(path, query);

  kubectl = (args: readonly string[], input?: string): Promise<KubectlResult> =>
    kubectl(this.#kubeconfig, ['--namespace', this.namespace, ...args], input);

  /**
   * Makes the server forget every version but the latest, as etcd's compaction does.
   * @throws Error
   * unless `canForget`
   */
  async forget(): Promise<void> {
    if (this.#forget === undefined) throw new Error('the etcd of this cluster is out of reach');
    await this.#forget();
  }
}

export const isReal = process.env['CONFORMANCE_KUBECONFIG'] !== undefined;

/**
 * Whether the tests can compact the history. False on a cluster that the tests did not start: only
 * its etcd compacts, and no request to the API server reaches it.
 */
export const canForget = !isReal || process.env['CONFORMANCE_ETCD'] !== undefined;

/** Maximum time of background work: controllers of a real server read new kinds every 30 s. */
export const patienceMs = 60_000;

/** Registers hooks that start and end the server of a file of cases, with its own namespace. */
export function useServer(): () => Server {
  const stack = new AsyncDisposableStack();
  let server: Server | undefined;
  beforeAll(async () => {
    server = await openServer(stack);
  }, 60_000);
  afterAll(() => stack.disposeAsync(), 60_000);
  return () => {
    if (server === undefined) throw new Error('the server is not up yet');
    return server;
  };
}

async function openServer(stack: AsyncDisposableStack): Promise<Server> {
  const { kubeconfig, forget } = await startOrFind(stack);
  const { connection } = await loadConnection({ kubeconfig });
  const client = stack.adopt(new RawClient(connection), (open) => open.close());
  const id = randomBytes(4).toString('hex');
  const server = new Server({
    client,
    kubeconfig,
    forget,
    namespace: `conformance-${id}`,
    widgetGroup: `w${id}.example.com`,
  });

  for (const definition of crds()) await install(server, definition);
  const widgets = widgetDefinition(server.widgetGroup);
  stack.defer(async () => {
    await server.delete(`${definitionsPath}/${widgets.metadata.name}`);
  });
  await install(server, widgets);
  await expectOk(server.post('/api/v1/namespaces', { metadata: { name: server.namespace } }));
  stack.defer(async () => {
    await server.delete(`/api/v1/namespaces/${server.namespace}`);
  });
  // A real server creates the account that pods run as after the namespace.
  await expectOk(
    server.post(server.core('serviceaccounts'), { metadata: { name: 'default' } }),
    409,
  );
  return server;
}

const definitionsPath = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

/** Creates a definition or brings it up to date, and waits until its kind is served. */
export async function install(server: Server, definition: Definition): Promise<void> {
  const { metadata, spec } = definition;
  await expectOk(server.post(definitionsPath, definition), 409);
  await expectOk(server.mergePatch(`${definitionsPath}/${metadata.name}`, definition));
  const version = spec.versions[0]?.name ?? '';
  await eventually(`${metadata.name} is served`, async () => {
    const { status } = await server.get(`/apis/${spec.group}/${version}/${spec.names.plural}`);
    return status === 200;
  });
}

async function expectOk(reply: Promise<Reply>, ...others: readonly number[]): Promise<void> {
  const { status, text } = await reply;
  if (status > 299 && !others.includes(status))
    throw new Error(`the server answered ${status}: ${text}`);
}

async function startOrFind(
  stack: AsyncDisposableStack,
): Promise<{ kubeconfig: string; forget: (() => Promise<void>) | undefined }> {
  const kubeconfig = process.env['CONFORMANCE_KUBECONFIG'];
  const etcd = process.env['CONFORMANCE_ETCD'];
  if (kubeconfig !== undefined)
    return { kubeconfig, forget: etcd === undefined ? undefined : () => forgetHistory(etcd) };
  const running = await runApiServer();
  stack.defer(() => running.close());
  return {
    kubeconfig: running.kubeconfig,
    forget: () => {
      running.plane.compactTo(running.plane.revision);
      return Promise.resolve();
    },
  };
}
