import { sandboxIndexers } from '../../src/controllers/caches.ts';
import { OpenHandsClient } from '../../src/agent/openhands-client.ts';
import { SandboxKeys } from '../../src/agent/keys.ts';
import { PodCreations } from '../../src/controllers/sandbox/pod-creations.ts';
import {
  createSandboxes,
  type SandboxesOptions,
} from '../../src/controllers/sandbox/controller.ts';
import type { SandboxReconciler } from '../../src/controllers/sandbox/reconcile.ts';
import type { EventDetails } from '@conversation-operator/kube/events';
import { IndexedStore } from '@conversation-operator/kube/store';
import { silentLogger } from '@conversation-operator/base/logger';
import {
  cachedClaim,
  type CachedClaim,
  cachedPod,
  type CachedPod,
} from '../../src/resources/cached-core.ts';
import { cachedSandbox } from '../../src/resources/cached-kinds.ts';
import { persistentVolumeClaims, pods, type Pod } from '@conversation-operator/kube/core';
import { Interner } from '../../src/resources/cached-metadata.ts';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import type { SandboxTemplate } from '../../src/resources/sandbox-template.ts';
import { aTemplate, noonMs } from './builders.ts';
import { FakeKubeClient } from './fake-kube-client.ts';
import { VirtualClock } from './virtual-clock.ts';

export const sceneKeys = new SandboxKeys([Buffer.alloc(32, 1)]);

/** A sandbox controller on an API server in memory; each reconcile begins with fresh caches. */
export class SandboxScene {
  readonly client = new FakeKubeClient();
  readonly clock = new VirtualClock(noonMs);
  readonly events: EventDetails[] = [];
  readonly podCreations = new PodCreations(this.clock);
  readonly #interner = new Interner();
  readonly #stores = {
    sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
    pods: new IndexedStore<CachedPod>(),
    claims: new IndexedStore<CachedClaim>(),
    templates: new IndexedStore<SandboxTemplate>(),
  };
  readonly #reconciler: SandboxReconciler;
  #stalePod: Pod | undefined;

  constructor(options: Partial<SandboxesOptions> = {}) {
    const { client, clock } = this;
    this.template = aTemplate();
    this.#reconciler = createSandboxes({
      client,
      clock,
      stores: this.#stores,
      keys: sceneKeys,
      logger: silentLogger,
      podCreations: this.podCreations,
      random: () => 0,
      agent: new OpenHandsClient(),
      events: { record: (_object, details) => void this.events.push(details) },
      ...options,
    });
  }

  set template(template: SandboxTemplate) {
    this.#stores.templates.set(template);
  }

  /** The sandbox, or what a change makes of it instead of its owner, admission or a kubelet. */
  async sandbox(change?: (sandbox: Sandbox) => Sandbox): Promise<Sandbox> {
    const stored = await this.client.get(sandboxes, 'default', 'sbx-1');
    return change === undefined ? stored : this.client.put(sandboxes, change(stored));
  }

  async pod(): Promise<Pod | undefined> {
    return (await this.client.list(pods)).items[0];
  }

  /** From now on the cache shows this pod, which the API server does not have any more. */
  set stalePod(pod: Pod) {
    this.#stalePod = pod;
  }

  /**
   * Reconciles once, and once more for the watch event of a claim that this has created and that is
   * bound at once. Returns when the controller asks to be called again, with the phase and the
   * reason afterwards.
   */
  async reconcile(): Promise<{
    readonly requeueAfterMs: number | undefined;
    readonly phase: string;
    readonly reason: string;
  }> {
    await this.observe();
    const known = this.#stores.claims.list().length;
    const result = await this.reconcileBehind();
    const { items } = await this.client.list(persistentVolumeClaims);
    if (items.length === known) return result;
    for (const claim of items)
      this.client.put(persistentVolumeClaims, { ...claim, status: { phase: 'Bound' } });
    return this.reconcile();
  }

  async observe(): Promise<void> {
    await this.#refresh(sandboxes, this.#stores.sandboxes, (sandbox) =>
      cachedSandbox(sandbox, this.#interner),
    );
    await this.#refresh(pods, this.#stores.pods, (pod) => cachedPod(pod, this.#interner));
    if (this.#stalePod !== undefined) this.#stores.pods.set(this.#stalePod);
    await this.#refresh(persistentVolumeClaims, this.#stores.claims, (claim) =>
      cachedClaim(claim, this.#interner),
    );
  }

  /** Reconciles with caches as they were at the last reconcile. */
  async reconcileBehind(): Promise<{
    readonly requeueAfterMs: number | undefined;
    readonly phase: string;
    readonly reason: string;
  }> {
    const result = await this.#reconciler.reconcile(
      { namespace: 'default', name: 'sbx-1' },
      new AbortController().signal,
    );
    const { phase, reason } = viewOfSandbox(await this.sandbox());
    return { requeueAfterMs: result?.requeueAfterMs, phase, reason };
  }

  /** Reads the object again, as the controller does after a conflict. */
  refresh(): Promise<void> {
    return this.#reconciler.refresh(
      { namespace: 'default', name: 'sbx-1' },
      new AbortController().signal,
    );
  }

  async #refresh<S extends KubeObject, T extends KubeObject>(
    resource: ResourceDefinition<S>,
    store: IndexedStore<T>,
    transform: (object: S) => T,
  ): Promise<void> {
    for (const { metadata } of store.list()) store.delete(metadata.namespace ?? '', metadata.name);
    for (const object of (await this.client.listMapped(resource, transform)).items)
      store.set(object);
  }
}
