import { ControlPlane } from '@conversation-operator/local-cluster/control-plane';
import type { PlaneRequest, PlaneResponse } from '../../packages/local-cluster/src/api/request.ts';
import { WatchStream } from '../../packages/local-cluster/src/storage/changes.ts';
import { conversations, type Conversation } from '../../src/resources/conversation.ts';
import {
  conversationQuotas,
  type ConversationQuota,
} from '../../src/resources/conversation-quota.ts';
import {
  kubeEvents,
  leases,
  persistentVolumeClaims,
  pods,
  type Lease,
  type PersistentVolumeClaim,
  type Pod,
} from '@conversation-operator/kube/core';
import { crdOf, definitions } from '../../src/resources/crd.ts';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { sandboxPools, type SandboxPool } from '../../src/resources/sandbox-pool.ts';
import { sandboxTemplates, type SandboxTemplate } from '../../src/resources/sandbox-template.ts';
import { LeaseStore } from './lease-store.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';
import type { Trace } from './trace.ts';

/** Made once: reading schemas takes longer than a simulated minute. */
const crds = definitions.map(crdOf);

/** One write as it took effect. */
export interface Change {
  readonly plural: string;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: KubeObject;
  readonly before: KubeObject | undefined;
  readonly version: number;
  /** The process that asked for the change; `plane` for garbage collection and the like. */
  readonly actor: string;
  /**
   * The earliest time at which that process can have decided on the change, in milliseconds of the
   * simulation. A request waits in queues of its client, on its way, and while its process is
   * frozen.
   */
  readonly decidedSince: number;
  /** The object as it was stored, as JSON. */
  readonly text: string;
}

interface Line {
  readonly plural: string;
  readonly text: string;
}

export interface ClusterOptions {
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly trace: Trace;
  /** Whether a store of their own serves leases, instead of the control plane; default false. */
  readonly ownLeases?: boolean;
}

const observed: readonly Pick<ResourceDefinition<KubeObject>, 'group' | 'version' | 'plural'>[] = [
  conversations,
  sandboxes,
  sandboxTemplates,
  sandboxPools,
  conversationQuotas,
  pods,
  persistentVolumeClaims,
  leases,
  kubeEvents,
];

/** A cluster as users, nodes and checks use it: all of it, or one namespace. */
export type Cluster = Readonly<Pick<WholeCluster, keyof WholeCluster>>;

/** The real control plane in memory, and what is true in it now, for the checks and the node. */
export class WholeCluster {
  readonly #plane: ControlPlane;
  readonly #trace: Trace;
  readonly #lines: Line[] = [];
  readonly #leases: LeaseStore | undefined;
  readonly #leaseChanges: Omit<Change, 'before'>[] = [];
  #actor = '';
  readonly #scheduler: Scheduler;
  readonly #objects = new Map<string, Map<string, KubeObject>>();
  /** The request that wrote each version. */
  readonly #origins = new Map<number, Pick<Change, 'actor' | 'decidedSince'>>();
  /** The owner of each sandbox, by its uid. */
  readonly #ownersSeen = new Map<string, string>();
  readonly #listeners = new Set<(change: Change) => void>();
  readonly #outages = new Set<() => void>();
  #down = false;
  /** How many GETs there have been, apart from those of leases. */
  reads = 0;

  constructor({ scheduler, random, trace, ownLeases = false }: ClusterOptions) {
    this.#trace = trace;
    this.#scheduler = scheduler;
    this.#leases = ownLeases
      ? new LeaseStore({ onChange: ({ type, lease }) => this.#leaseChanged(type, lease) })
      : undefined;
    this.#plane = new ControlPlane({
      storage: 'memory',
      clock: scheduler,
      random: random.next,
      logger: trace.logger('plane'),
    });
  }

  async start(): Promise<void> {
    await this.#plane.start();
    await this.#plane.applyCrds(crds);
    for (const resource of observed) await this.#observe(resource);
  }

  /** A request as it arrives at the server. Its writes take effect before this returns. */
  execute(
    actor: string,
    request: PlaneRequest,
    decidedSince = this.#scheduler.monotonic(),
  ): Promise<PlaneResponse> {
    this.#actor = actor;
    const lease = this.#leases?.handle(request);
    if (lease !== undefined) return Promise.resolve(lease);
    if (request.method === 'GET' && !request.path.includes('/leases/')) this.reads++;
    const before = this.#plane.revision;
    const response = this.#plane.handle(request);
    for (let version = before + 1; version <= this.#plane.revision; version++)
      this.#origins.set(version, { actor, decidedSince });
    return response;
  }

  /** A call without network and faults. */
  async call(
    actor: string,
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ readonly status: number; readonly body: unknown }> {
    const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const response = await this.execute(actor, {
      method,
      path,
      headers: { 'content-type': contentType },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    this.#trace.note(`${actor} ${method} ${path} -> ${response.status}`);
    return {
      status: response.status,
      body: typeof response.body === 'string' ? (JSON.parse(response.body) as unknown) : undefined,
    };
  }

  /** Forgets the past: every watch from before has to begin anew. */
  compact(): void {
    this.#plane.compactTo(this.#plane.revision);
  }

  /** The API server can't be reached by anyone. */
  get down(): boolean {
    return this.#down;
  }

  /** Goes down as in a restart: every connection breaks, and what is stored stays. */
  goDown(): void {
    this.#down = true;
    for (const outage of this.#outages) outage();
    this.#outages.clear();
  }

  comeBack(): void {
    this.#down = false;
  }

  /** Calls back once, at the next outage. Returns the remover. */
  onOutage(outage: () => void): () => void {
    this.#outages.add(outage);
    return () => this.#outages.delete(outage);
  }

  /** Returns the remover. */
  onChange(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Notifies listeners of the writes since the last call, in order. */
  notify(): void {
    if (this.#lines.length === 0 && this.#leaseChanges.length === 0) return;
    const changes = this.#lines.splice(0).flatMap(({ plural, text }) =>
      text
        .trimEnd()
        .split('\n')
        .map((line) => this.#changeOf(plural, line)),
    );
    changes.push(...this.#leaseChanges.splice(0));
    for (const change of changes.sort((one, other) => one.version - other.version)) {
      const { plural, object, type, actor, version, text } = change;
      const { namespace = '', name } = object.metadata;
      const known = this.#of(plural);
      const key = `${namespace}/${name}`;
      const before = known.get(key);
      if (plural === sandboxes.plural)
        this.#ownersSeen.set(object.metadata.uid, (object as Sandbox).spec.owner);
      if (type === 'DELETED') known.delete(key);
      else known.set(key, object);
      this.#trace.note(`${actor} wrote ${plural}/${name} v${version} ${type} ${text}`);
      for (const listener of this.#listeners) listener({ ...change, before });
    }
  }

  get conversations(): readonly Conversation[] {
    return [...this.#of(conversations.plural).values()] as Conversation[];
  }

  /** The sandboxes of owners. */
  get sandboxes(): readonly Sandbox[] {
    return this.#everySandbox.filter(({ spec }) => spec.owner !== '');
  }

  /** The sandboxes of pools that no start has claimed. */
  get warmSandboxes(): readonly Sandbox[] {
    return this.#everySandbox.filter(({ spec }) => spec.owner === '');
  }

  get pools(): readonly SandboxPool[] {
    return [...this.#of(sandboxPools.plural).values()] as SandboxPool[];
  }

  get #everySandbox(): readonly Sandbox[] {
    return [...this.#of(sandboxes.plural).values()] as Sandbox[];
  }

  get quotas(): readonly ConversationQuota[] {
    return [...this.#of(conversationQuotas.plural).values()] as ConversationQuota[];
  }

  get templates(): readonly SandboxTemplate[] {
    return [...this.#of(sandboxTemplates.plural).values()] as SandboxTemplate[];
  }

  get pods(): readonly Pod[] {
    return [...this.#of(pods.plural).values()] as Pod[];
  }

  get claims(): readonly PersistentVolumeClaim[] {
    return [...this.#of(persistentVolumeClaims.plural).values()] as PersistentVolumeClaim[];
  }

  get leases(): readonly Lease[] {
    return [...this.#of(leases.plural).values()] as Lease[];
  }

  /**
   * The owner of the sandbox of a pod, also once the sandbox is gone; empty for that of a warm
   * sandbox. The pod of a warm sandbox may name an owner who did not claim it in the end.
   */
  ownerOfPod({ metadata: { ownerReferences } }: Pod): string {
    return this.#ownersSeen.get(ownerReferences?.[0]?.uid ?? '') ?? '';
  }

  /** The sandbox with this uid, also a warm sandbox. */
  sandboxOf(uid: string): Sandbox | undefined {
    return this.#everySandbox.find(({ metadata }) => metadata.uid === uid);
  }

  #of(plural: string): Map<string, KubeObject> {
    const known = this.#objects.get(plural) ?? new Map<string, KubeObject>();
    this.#objects.set(plural, known);
    return known;
  }

  #changeOf(plural: string, text: string): Omit<Change, 'before'> {
    const { type, object } = JSON.parse(text) as { type: string; object: KubeObject };
    if (type !== 'ADDED' && type !== 'MODIFIED' && type !== 'DELETED')
      throw new Error(`the observer's watch says ${text}`);
    const version = Number(object.metadata.resourceVersion);
    const origin = this.#origins.get(version) ?? {
      actor: 'plane',
      decidedSince: this.#scheduler.monotonic(),
    };
    return { plural, type, object, version, ...origin, text };
  }

  #leaseChanged(type: Change['type'], lease: Lease): void {
    // Later than every write before it, and earlier than the next.
    const version = this.#plane.revision + 0.5;
    const text = `${lease.spec?.holderIdentity ?? ''} ${lease.metadata.resourceVersion}`;
    this.#leaseChanges.push({
      plural: leases.plural,
      type,
      object: lease,
      version,
      actor: this.#actor,
      decidedSince: this.#scheduler.monotonic(),
      text,
    });
  }

  async #observe(kind: (typeof observed)[number], after?: number): Promise<void> {
    const { group, version, plural } = kind;
    const path = `${group === '' ? '/api' : `/apis/${group}`}/${version}/${plural}`;
    const query = new URLSearchParams({ watch: 'true', timeoutSeconds: '3600' });
    if (after !== undefined) query.set('resourceVersion', String(after));
    const { body } = await this.#plane.handle({ method: 'GET', path, query, headers: {} });
    if (!(body instanceof WatchStream))
      throw new Error(`no watch of ${plural}: ${JSON.stringify(body)}`);
    void (async () => {
      for await (const text of body) this.#lines.push({ plural, text });
      // Nothing is written between the end of a watch and the next one: only steps write.
      await this.#observe(kind, this.#plane.revision);
    })();
  }
}
