import { bySandbox, byTemplate } from '../../src/controllers/caches.ts';
import { RetentionReconciler } from '../../src/controllers/retention/reconcile.ts';
import { Controller } from '@conversation-operator/kube/controller';
import { isConflict } from '@conversation-operator/kube/errors';
import { IndexedStore } from '@conversation-operator/kube/store';
import { silentLogger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../src/observability/metrics.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../src/resources/cached-conversation.ts';
import { withProjection } from '../../src/status/conversation-projection.ts';
import {
  conversations,
  type Conversation,
  type ConversationSpec,
} from '../../src/resources/conversation.ts';
import type { ConversationStatus } from '../../src/resources/conversation-status.ts';
import { ownerReferenceTo, type KubeObject } from '@conversation-operator/kube/object';
import {
  resumeRequestedAnnotation,
  sandboxes,
  type Sandbox,
  type SandboxState,
} from '../../src/resources/sandbox.ts';
import {
  sandboxTemplates,
  type SandboxTemplate,
  type SandboxTemplateSpec,
} from '../../src/resources/sandbox-template.ts';
import { aConversation, aSandbox, aTemplate, condition } from './builders.ts';
import { FakeKubeClient } from './fake-kube-client.ts';
import { VirtualClock } from './virtual-clock.ts';

const namespace = 'default';
const name = 'talk';
const sandboxName = 'sbx-talk';

const announced = ({ conditions = [] }: SandboxState) =>
  conditions.filter(({ type }) => type === 'Expiring');

/** Repeats a write after a conflict, as every controller does. */
async function persistently(write: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      await write();
      return;
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  }
}

/** A conversation in its sandbox, changed by controllers and people, and its retention. */
export class RetainedObjects {
  readonly client = new FakeKubeClient();
  readonly clock = new VirtualClock();
  readonly metrics = createMetrics();
  /** Reasons and messages of Events, each with the object's kind and true time in milliseconds. */
  readonly events: { readonly kind: string; readonly message: string; readonly atMs: number }[] =
    [];
  /** Successful deletions, with the object as it was. */
  readonly deletions: { readonly object: Conversation | Sandbox; readonly atMs: number }[] = [];
  readonly #stores = {
    conversations: new IndexedStore<CachedConversation>({
      [bySandbox]: ({ status }) =>
        status?.sandboxName === undefined ? [] : [`${namespace}/${status.sandboxName}`],
    }),
    sandboxes: new IndexedStore<Sandbox>({
      [byTemplate]: ({ spec }) => [`${namespace}/${spec.templateName}`],
    }),
    templates: new IndexedStore<SandboxTemplate>(),
  };
  readonly #begunMs: number;
  #reconciler: RetentionReconciler;
  #controller: Controller;

  constructor() {
    this.#begunMs = this.clock.now() - this.clock.monotonic();
    const remove = this.client.delete.bind(this.client);
    this.client.delete = async (resource, ns, of, options) => {
      const object = (await this.client.get(resource, ns, of)) as KubeObject as
        Conversation | Sandbox;
      await remove(resource, ns, of, options);
      this.deletions.push({ object, atMs: this.trueNowMs });
    };
    [this.#reconciler, this.#controller] = this.#start();
  }

  /** The time of every clock that no test has set. */
  get trueNowMs(): number {
    return this.#begunMs + this.clock.monotonic();
  }

  get trueNow(): string {
    return new Date(this.trueNowMs).toISOString();
  }

  /** A conversation that runs in its sandbox. */
  begin(spec: Partial<ConversationSpec>, retention?: SandboxTemplateSpec['retention']): void {
    this.client.put(sandboxTemplates, aTemplate(retention === undefined ? {} : { retention }));
    const sandbox = aSandbox({
      name: sandboxName,
      status: {
        replicas: 1,
        conditions: [this.#admitted('True', 'Admitted'), condition('Ready', 'True')],
      },
    });
    const { uid } = sandbox.metadata;
    const status: ConversationStatus = {
      start: { status: 'READY', transitions: [] },
      executionStatus: 'running',
      sandboxName,
      sandboxUID: uid,
    };
    const conversation = aConversation({ name, spec, status });
    const ownerReferences = [ownerReferenceTo(conversation, { controller: true })];
    this.client.put(sandboxes, { ...sandbox, metadata: { ...sandbox.metadata, ownerReferences } });
    this.client.put(conversations, conversation);
  }

  /** Another conversation of the owner joins the sandbox, which no cache shows. */
  async join(): Promise<void> {
    const stored = await this.sandbox();
    if (stored === undefined) return;
    const joined = aConversation({ name: 'other', spec: { sandboxName } });
    this.client.put(conversations, joined);
    const ownerReferences = [
      ...(stored.metadata.ownerReferences ?? []),
      ownerReferenceTo(joined, { controller: false }),
    ];
    await this.client.mergePatch(sandboxes, namespace, sandboxName, {
      metadata: { ownerReferences },
    });
  }

  async conversation(): Promise<Conversation | undefined> {
    return this.client.get(conversations, namespace, name).catch(() => undefined);
  }

  async sandbox(): Promise<Sandbox | undefined> {
    return this.client.get(sandboxes, namespace, sandboxName).catch(() => undefined);
  }

  /** The conversation's controller has seen another state of the agent, or delivered messages. */
  async becomes(change: Partial<ConversationStatus>): Promise<void> {
    await persistently(async () => {
      const stored = await this.conversation();
      if (stored === undefined) return;
      const status = withProjection(
        { ...stored, firstWords: '' },
        { ...stored.status, ...change },
        stored.metadata.generation,
        this.trueNow,
      );
      await this.client.updateStatus(conversations, { ...stored, status });
    });
  }

  /** A person edits the conversation: a message, or another time to live. */
  async edit(spec: Partial<ConversationSpec>): Promise<void> {
    if ((await this.conversation()) !== undefined)
      await this.client.mergePatch(conversations, namespace, name, { spec });
  }

  pause(reason = 'Idle'): Promise<void> {
    return this.#changeSandbox(({ metadata, status = {} }) => {
      const observedResumeRequest = metadata.annotations?.[resumeRequestedAnnotation];
      return {
        ...status,
        replicas: 0,
        pauseTime: this.trueNow,
        conditions: [
          { ...this.#admitted('False', reason), observedGeneration: 1 },
          ...announced(status),
        ],
        ...(observedResumeRequest === undefined ? {} : { observedResumeRequest }),
      };
    });
  }

  /** A person asks for the sandbox. */
  async requestResume(): Promise<void> {
    if ((await this.sandbox()) === undefined) return;
    const annotations = { [resumeRequestedAnnotation]: this.trueNow };
    await this.client.mergePatch(sandboxes, namespace, sandboxName, { metadata: { annotations } });
  }

  run(): Promise<void> {
    return this.#changeSandbox(({ status: { pauseTime: _, ...status } = {} }) => ({
      ...status,
      replicas: 1,
      conditions: [
        this.#admitted('True', 'Admitted'),
        condition('Ready', 'True'),
        ...announced(status),
      ],
    }));
  }

  /** Shows the caches what is stored, of every kind or of some. */
  async show({
    conversations: ofConversations = true,
    sandboxes: ofSandboxes = true,
  } = {}): Promise<void> {
    const { templates } = this.#stores;
    const [template] = (await this.client.list(sandboxTemplates)).items;
    if (template !== undefined) {
      const old = templates.get(namespace, template.metadata.name);
      templates.set(template);
      this.#reconciler.observeTemplate(template, old);
    }
    if (ofConversations) this.#showConversation(await this.conversation());
    if (ofSandboxes) this.#showSandbox(await this.sandbox());
  }

  #showConversation(stored: Conversation | undefined): void {
    const store = this.#stores.conversations;
    if (stored === undefined) {
      const deleted = store.delete(namespace, name);
      if (deleted !== undefined) this.#reconciler.forgetConversation(deleted);
      return;
    }
    const cached = cachedConversation(stored);
    store.set(cached);
    this.#reconciler.observeConversation(cached);
  }

  #showSandbox(stored: Sandbox | undefined): void {
    const store = this.#stores.sandboxes;
    if (stored === undefined) {
      const deleted = store.delete(namespace, sandboxName);
      if (deleted !== undefined) this.#reconciler.forgetSandbox(deleted);
      return;
    }
    store.set(stored);
    this.#reconciler.observeSandbox(stored);
  }

  /** Another process leads, and knows nothing but what is stored. */
  async restart(): Promise<void> {
    await this.#controller.stop(0);
    [this.#reconciler, this.#controller] = this.#start();
    await this.show();
  }

  /** Lets time pass, with caches that follow every `followMs`. */
  async pass(ms: number, followMs = 10_000): Promise<void> {
    for (let left = ms; left > 0; left -= followMs) {
      await this.show();
      await this.clock.advance(Math.min(left, followMs));
    }
    await this.show();
    await this.clock.settle();
  }

  stop(): Promise<void> {
    return this.#controller.stop(0);
  }

  #admitted(status: 'True' | 'False', reason: string) {
    return condition('Admitted', status, reason, this.trueNow);
  }

  async #changeSandbox(statusOf: (sandbox: Sandbox) => SandboxState): Promise<void> {
    await persistently(async () => {
      const stored = await this.sandbox();
      if (stored !== undefined)
        await this.client.updateStatus(sandboxes, { ...stored, status: statusOf(stored) });
    });
  }

  #start(): [RetentionReconciler, Controller] {
    const { client, clock, metrics } = this;
    const reconciler = new RetentionReconciler({
      client,
      clock,
      metrics,
      stores: this.#stores,
      logger: silentLogger,
      events: {
        record: (object, { message }) => {
          this.events.push({ kind: object.kind, message, atMs: this.trueNowMs });
        },
      },
      enqueue: (request) => controller.enqueue(request),
    });
    const controller = new Controller({
      name: 'retention',
      reconcile: (request, signal) => reconciler.reconcile(request, signal),
      clock,
      random: () => 0.5,
      logger: silentLogger,
    });
    controller.start();
    return [reconciler, controller];
  }
}
