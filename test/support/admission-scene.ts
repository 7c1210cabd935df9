import { AdmissionCache } from '../../src/controllers/admission/cache.ts';
import { AdmissionReads } from '../../src/controllers/admission/reads.ts';
import { AdmissionReconciler } from '../../src/controllers/admission/reconcile.ts';
import { bySandbox, sandboxIndexers } from '../../src/controllers/caches.ts';
import { workers } from '../../src/controllers/controller-spec.ts';
import { PodCreations } from '../../src/controllers/sandbox/pod-creations.ts';
import { Controller, type Request, type Result } from '@conversation-operator/kube/controller';
import { IndexedStore } from '@conversation-operator/kube/store';
import { silentLogger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../src/observability/metrics.ts';
import { cachedPod, type CachedPod } from '../../src/resources/cached-core.ts';
import type { CachedConversation } from '../../src/resources/cached-conversation.ts';
import {
  conversationQuotas,
  type ConversationQuota,
} from '../../src/resources/conversation-quota.ts';
import { pods, type Pod } from '@conversation-operator/kube/core';
import { Interner } from '../../src/resources/cached-metadata.ts';
import { sandboxes, type Sandbox, type SandboxState } from '../../src/resources/sandbox.ts';
import type { SandboxTemplate } from '../../src/resources/sandbox-template.ts';
import { aPod, aSandbox } from './builders.ts';
import { FakeKubeClient } from './fake-kube-client.ts';
import { VirtualClock } from './virtual-clock.ts';

const namespace = 'default';

/** The admission controller with its queues on an API server in memory; tests act as its watch. */
export class AdmissionScene {
  readonly client = new FakeKubeClient();
  readonly clock = new VirtualClock();
  readonly podCreations = new PodCreations(this.clock);
  /** Names of the quotas whose status was to be written. */
  readonly quotaStatuses: string[] = [];
  readonly stores = {
    sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
    conversations: new IndexedStore<CachedConversation>({
      [bySandbox]: ({ status }) =>
        status?.sandboxName === undefined ? [] : [`${namespace}/${status.sandboxName}`],
    }),
    templates: new IndexedStore<SandboxTemplate>(),
    quotas: new IndexedStore<ConversationQuota>(),
    pods: new IndexedStore<CachedPod>(),
  };
  readonly admission: AdmissionCache;
  readonly reads: AdmissionReads;
  readonly #reconciler: AdmissionReconciler;
  readonly #decisions = this.#controller('admission', (request, signal) =>
    this.#reconciler.reconcile(request, signal),
  );
  readonly #lookups = this.#controller('lookup', (request, signal) =>
    this.reads.read(request, signal),
  );

  constructor() {
    const { client, stores, clock, podCreations } = this;
    client.now = () => clock.now();
    const options = {
      client,
      stores,
      clock,
      podCreations,
      logger: silentLogger,
      metrics: createMetrics(),
    };
    const channels = {
      admission: this.#decisions,
      lookup: {
        enqueue: (request: Request, delayMs = 0) => this.#lookups.enqueueAfter(request, delayMs),
      },
      quota: { enqueue: ({ name }: Request) => void this.quotaStatuses.push(name) },
    };
    this.admission = new AdmissionCache({ ...options, channels });
    this.reads = new AdmissionReads({ ...options, cache: this.admission, channels });
    this.#reconciler = new AdmissionReconciler({
      ...options,
      cache: this.admission,
      reads: this.reads,
      keys: { currentKeyId: 'key' },
      events: { record: () => undefined },
    });
    this.#decisions.start();
    this.#lookups.start();
  }

  #controller(
    name: 'admission' | 'lookup',
    reconcile: (request: Request, signal: AbortSignal) => Promise<Result>,
  ): Controller {
    const { clock } = this;
    return new Controller({
      name,
      reconcile,
      workers: workers[name],
      clock,
      random: () => 0,
      logger: silentLogger,
    });
  }

  async stop(): Promise<void> {
    await this.clock.run(Promise.all([this.#decisions.stop(), this.#lookups.stop()]));
  }

  async addQuota({ metadata: { name }, ...quota }: ConversationQuota): Promise<ConversationQuota> {
    const stored = await this.client.create(conversationQuotas, {
      ...quota,
      metadata: { name, namespace },
    });
    this.stores.quotas.set(stored);
    this.admission.observeQuota(stored);
    return stored;
  }

  async deleteQuota({ metadata: { name } }: ConversationQuota): Promise<void> {
    const gone = this.stores.quotas.delete(namespace, name);
    await this.client.delete(conversationQuotas, namespace, name);
    if (gone !== undefined) this.admission.forgetQuota(gone);
  }

  async addSandbox(
    name: string,
    { status, owner = 'alice' }: { status?: Partial<SandboxState>; owner?: string } = {},
  ): Promise<Sandbox> {
    const { metadata: _metadata, ...sandbox } = aSandbox({
      name,
      owner,
      ...(status === undefined ? {} : { status }),
    });
    const stored = await this.client.create(sandboxes, {
      ...sandbox,
      metadata: { name, namespace },
    });
    this.show(stored);
    return stored;
  }

  showConversation(conversation: CachedConversation): void {
    this.stores.conversations.set(conversation);
    this.admission.observeConversation(conversation);
  }

  show(sandbox: Sandbox): void {
    this.stores.sandboxes.set(sandbox);
    this.admission.observe(sandbox);
  }

  /** A sandbox is deleted; its pod stays behind, in the cache or not. */
  async leavePod(sandbox: Sandbox, { cached = true } = {}): Promise<Pod> {
    const { name } = sandbox.metadata;
    const pod = aPod(sandbox, { phase: 'Running' }, { deleting: true });
    this.client.put(pods, pod);
    if (cached) this.stores.pods.set(cachedPod(pod, new Interner()));
    await this.client.delete(sandboxes, namespace, name);
    const gone = this.stores.sandboxes.delete(namespace, name);
    if (gone !== undefined) this.admission.forget(gone);
    return pod;
  }

  stored(name: string): Promise<Sandbox> {
    return this.client.get(sandboxes, namespace, name);
  }

  takenBy(owner: string): number {
    return this.admission.snapshot(namespace).owner(owner)?.load.taken ?? 0;
  }
}
