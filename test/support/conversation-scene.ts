import { noAgentCredentials } from '../../src/agent/credentials.ts';
import { OpenHandsClient } from '../../src/agent/openhands-client.ts';
import { UnresponsiveAgents } from '../../src/controllers/agent-calls/unresponsive-agents.ts';
import {
  conversationIndexers,
  sandboxIndexers,
  usageRecordIndexers,
} from '../../src/controllers/caches.ts';
import type { CachedUsageRecord } from '../../src/resources/usage-record.ts';
import {
  createConversations,
  type ConversationsOptions,
} from '../../src/controllers/conversation/controllers.ts';
import type { ConversationReconciler } from '../../src/controllers/conversation/reconcile.ts';
import type { EventDetails } from '@conversation-operator/kube/events';
import { IndexedStore } from '@conversation-operator/kube/store';
import { silentLogger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../src/observability/metrics.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../src/resources/cached-conversation.ts';
import { cachedSandbox } from '../../src/resources/cached-kinds.ts';
import { conversations, type Conversation } from '../../src/resources/conversation.ts';
import { Interner } from '../../src/resources/cached-metadata.ts';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import type { SandboxTemplate } from '../../src/resources/sandbox-template.ts';
import { aTemplate, noonMs } from './builders.ts';
import { FakeKubeClient } from './fake-kube-client.ts';
import type { CachedClaim, CachedPod } from '../../src/resources/cached-core.ts';
import { sceneKeys } from './sandbox-scene.ts';
import { VirtualClock } from './virtual-clock.ts';

/**
 * The object as its JSON gives it: a clone by `structuredClone` has prototypes of another realm in
 * Jest, and equals no literal.
 */
const parsed = (conversation: Conversation): Conversation =>
  JSON.parse(JSON.stringify(conversation)) as Conversation;

/** The conversation controller on an API server in memory; each reconcile has fresh caches. */
export class ConversationScene {
  readonly client = new FakeKubeClient();
  readonly clock = new VirtualClock(noonMs);
  readonly events: EventDetails[] = [];
  readonly #interner = new Interner();
  readonly #stores = {
    conversations: new IndexedStore<CachedConversation>(conversationIndexers),
    sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
    templates: new IndexedStore<SandboxTemplate>(),
    pods: new IndexedStore<CachedPod>(),
    claims: new IndexedStore<CachedClaim>(),
    usageRecords: new IndexedStore<CachedUsageRecord>(usageRecordIndexers),
  };
  readonly #reconciler: ConversationReconciler;

  constructor(options: Partial<ConversationsOptions> = {}) {
    const { client, clock } = this;
    this.#stores.templates.set(aTemplate());
    this.#reconciler = createConversations({
      client,
      clock,
      stores: this.#stores,
      keys: sceneKeys,
      gitHosts: {},
      random: () => 0,
      logger: silentLogger,
      agent: new OpenHandsClient(),
      credentials: noAgentCredentials,
      metrics: createMetrics(),
      unresponsiveAgents: new UnresponsiveAgents({ clock }),
      onUnresponsive: () => undefined,
      events: { record: (_object, details) => void this.events.push(details) },
      ...options,
    });
  }

  conversation(name: string): Promise<Conversation> {
    return this.client.get(conversations, 'default', name);
  }

  async sandboxes(): Promise<readonly string[]> {
    return (await this.client.list(sandboxes)).items.map(({ metadata }) => metadata.name);
  }

  /** Reconciles once and returns when the controller asks to be called again. */
  async reconcile(name: string): Promise<number | undefined> {
    await this.refresh();
    return (
      await this.#reconciler.reconcile({ namespace: 'default', name }, new AbortController().signal)
    )?.requeueAfterMs;
  }

  /** Reconciles with caches as they were at the last refresh. */
  async reconcileBehind(name: string): Promise<number | undefined> {
    return (
      await this.#reconciler.reconcile({ namespace: 'default', name }, new AbortController().signal)
    )?.requeueAfterMs;
  }

  async refresh(): Promise<void> {
    await this.#fill(conversations, this.#stores.conversations, (conversation) =>
      cachedConversation(parsed(conversation), this.#interner),
    );
    await this.#fill(sandboxes, this.#stores.sandboxes, (sandbox) =>
      cachedSandbox(sandbox, this.#interner),
    );
  }

  async #fill<S extends KubeObject, T extends KubeObject>(
    resource: ResourceDefinition<S>,
    store: IndexedStore<T>,
    transform: (object: S) => T,
  ): Promise<void> {
    for (const { metadata } of store.list()) store.delete(metadata.namespace ?? '', metadata.name);
    for (const object of (await this.client.listMapped(resource, transform)).items)
      store.set(object);
  }
}
