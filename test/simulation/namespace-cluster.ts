import type { PlaneRequest, PlaneResponse } from '../../packages/local-cluster/src/api/request.ts';
import { leases, type Pod } from '@conversation-operator/kube/core';
import type { KubeObject } from '@conversation-operator/kube/object';
import type { Change, Cluster } from './cluster.ts';
import { Traffic, type TrafficRequest } from './traffic.ts';

export interface NamespaceClusterOptions {
  /** The cluster with all namespaces. */
  readonly whole: Cluster;
  readonly namespace: string;
  /** Name of the Lease of the namespace's shard. */
  readonly leaseName: string;
}

/** A cluster's namespace under the name `default`, with its own objects and its shard's Lease. */
export class NamespaceCluster implements Cluster {
  readonly #options: NamespaceClusterOptions;
  readonly #renamed = new WeakMap<KubeObject, KubeObject>();

  constructor(options: NamespaceClusterOptions) {
    this.#options = options;
  }

  /** Creates the namespace; the whole cluster has started. */
  async start(): Promise<void> {
    const { whole, namespace } = this.#options;
    const { status } = await whole.call('kubectl', 'POST', '/api/v1/namespaces', {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: namespace },
    });
    if (status !== 201) throw new Error(`namespace ${namespace}: ${status}`);
  }

  execute(actor: string, request: PlaneRequest, decidedSince?: number): Promise<PlaneResponse> {
    const { namespace } = this.#options;
    const path = request.path.replace('/namespaces/default', `/namespaces/${namespace}`);
    const body = request.body?.replaceAll('"namespace":"default"', `"namespace":"${namespace}"`);
    return this.#options.whole.execute(
      actor,
      { ...request, path, ...(body === undefined ? {} : { body }) },
      decidedSince,
    );
  }

  call(actor: string, method: string, path: string, body?: unknown) {
    const { namespace, whole } = this.#options;
    return whole.call(
      actor,
      method,
      path.replace('/namespaces/default', `/namespaces/${namespace}`),
      body === undefined
        ? undefined
        : JSON.parse(
            JSON.stringify(body).replaceAll('"namespace":"default"', `"namespace":"${namespace}"`),
          ),
    );
  }

  compact(): void {
    this.#options.whole.compact();
  }

  get down(): boolean {
    return this.#options.whole.down;
  }

  goDown(): void {
    this.#options.whole.goDown();
  }

  comeBack(): void {
    this.#options.whole.comeBack();
  }

  onOutage(outage: () => void): () => void {
    return this.#options.whole.onOutage(outage);
  }

  onChange(listener: (change: Change) => void): () => void {
    return this.#options.whole.onChange((change) => {
      if (!this.#has(change.object, change.plural)) return;
      const { object, before } = change;
      listener({ ...change, object: this.#rename(object), before: before && this.#rename(before) });
    });
  }

  notify(): void {
    this.#options.whole.notify();
  }

  get reads(): number {
    return this.#options.whole.reads;
  }

  get conversations() {
    return this.#own(this.#options.whole.conversations);
  }

  get sandboxes() {
    return this.#own(this.#options.whole.sandboxes);
  }

  get warmSandboxes() {
    return this.#own(this.#options.whole.warmSandboxes);
  }

  get pools() {
    return this.#own(this.#options.whole.pools);
  }

  ownerOfPod(pod: Pod): string {
    return this.#options.whole.ownerOfPod(pod);
  }

  get quotas() {
    return this.#own(this.#options.whole.quotas);
  }

  get templates() {
    return this.#own(this.#options.whole.templates);
  }

  get pods() {
    return this.#own(this.#options.whole.pods);
  }

  get claims() {
    return this.#own(this.#options.whole.claims);
  }

  get leases() {
    return this.#options.whole.leases.filter((lease) => this.#has(lease, leases.plural));
  }

  sandboxOf(uid: string) {
    return [...this.sandboxes, ...this.warmSandboxes].find(({ metadata }) => metadata.uid === uid);
  }

  /** The requests of a cluster that are about this namespace, as its checks see them. */
  trafficOf(whole: Traffic): Traffic {
    const own = new Traffic();
    const path = `/namespaces/${this.#options.namespace}/`;
    const renamed = (request: TrafficRequest): TrafficRequest => ({
      ...request,
      path: request.path.replace(path, '/namespaces/default/'),
    });
    const { refusal } = whole;
    whole.refusal = (request) =>
      request.path.includes(path) ? own.refusal(renamed(request)) : refusal(request);
    whole.add({
      sent: (request) => {
        if (request.path.includes(path)) own.sent(renamed(request));
      },
      answered: (request, status, body) => {
        if (request.path.includes(path)) own.answered(renamed(request), status, body);
      },
    });
    return own;
  }

  #has({ metadata }: KubeObject, plural?: string): boolean {
    return plural === leases.plural
      ? metadata.name === this.#options.leaseName
      : metadata.namespace === this.#options.namespace;
  }

  #own<T extends KubeObject>(objects: readonly T[]): readonly T[] {
    return objects.filter((object) => this.#has(object)).map((object) => this.#rename(object));
  }

  /** The same object each time, as `Cluster` returns it. */
  #rename<T extends KubeObject>(object: T): T {
    const known = this.#renamed.get(object);
    if (known !== undefined) return known as T;
    const renamed = { ...object, metadata: { ...object.metadata, namespace: 'default' } };
    this.#renamed.set(object, renamed);
    return renamed;
  }
}
