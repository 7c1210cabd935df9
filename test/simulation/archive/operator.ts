import { Controller } from '@conversation-operator/kube/controller';
import type { Finality } from '@conversation-operator/kube/reflector';
import type { SandboxKeys } from '../../../src/agent/keys.ts';
import { agentEndpointOf } from '../../../src/agent/kinds.ts';
import type { Codec } from '../../../src/archive/codec.ts';
import { measuredStore } from '../../../src/archive/measured-store.ts';
import {
  archiveController,
  archiveSweepController,
  createArchives,
} from '../../../src/controllers/archive/archives.ts';
import { conversationIndexers } from '../../../src/controllers/caches.ts';
import { Channel } from '../../../src/controllers/controller-spec.ts';
import { ClosedCounter } from '../../../src/observability/closed-metrics.ts';
import { createMetrics, type Metrics } from '../../../src/observability/metrics.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../../src/resources/cached-conversation.ts';
import type { Conversation } from '../../../src/resources/conversation.ts';
import type { ConversationQuota } from '../../../src/resources/conversation-quota.ts';
import type { Sandbox } from '../../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../../src/status/sandbox-phase.ts';
import type { SandboxTemplate } from '../../../src/resources/sandbox-template.ts';
import { TestCache } from '../../support/test-cache.ts';
import { Machine } from '../machine.ts';
import type { Random } from '../random.ts';
import type { Trace } from '../trace.ts';
import type { AgentNetwork } from './agents.ts';
import type { FaultyApi } from './faulty-api.ts';
import type { FaultyStore } from './faulty-store.ts';
import type { IoScheduler } from './io-scheduler.ts';

export interface ModelOperatorOptions {
  readonly name: string;
  readonly scheduler: IoScheduler;
  readonly random: Random;
  readonly trace: Trace;
  readonly store: FaultyStore;
  readonly api: FaultyApi;
  readonly network: AgentNetwork;
  readonly codec: Codec;
  readonly keys: SandboxKeys;
  readonly apiKey: string;
  readonly conversations: readonly Conversation[];
  readonly sandboxes: readonly Sandbox[];
  readonly template: SandboxTemplate;
  readonly quotas: readonly ConversationQuota[];
  /** Limit of the sweep. Undefined: the default. */
  readonly maxOrphanShare: number | undefined;
}

const sharedMetrics = createMetrics();
const sealLabels = { result: ['complete', 'incomplete'] } as const;

/** The counter of seals, which hands on each result. */
class SealResults extends ClosedCounter<typeof sealLabels> {
  readonly #take: (result: string) => void;

  constructor(take: (result: string) => void) {
    super({ name: 'seals', help: 'Results of seals.', registers: [], labels: sealLabels });
    this.#take = take;
  }

  override inc({ result }: { readonly result: string }): void {
    this.#take(result);
  }
}

/** One run of the operator, with the caches, the queues and the parts that archive. */
export class ModelOperator {
  readonly machine: Machine;
  readonly #options: ModelOperatorOptions;
  readonly #conversations = new TestCache<CachedConversation>(conversationIndexers);
  readonly #sandboxes = new TestCache<Sandbox>();
  readonly #archiving: ReturnType<typeof createArchives>;
  #results: string[] = [];
  /** The end of the last seal: one at a time, so that their results stay apart. */
  #sealed: Promise<unknown> = Promise.resolve();
  /** Time at which the next change arrives at the earliest: changes keep their order. */
  #arrivesAt = 0;
  /** Maximum delay of a change on its way to the caches, in milliseconds. */
  lagMs = 50;
  /** Time until which its wall clock is not set wrong again. */
  clockRestsUntil = 0;

  constructor(options: ModelOperatorOptions) {
    this.#options = options;
    const { name, scheduler, random, trace, store, api, network, codec, keys, maxOrphanShare } =
      options;
    this.machine = new Machine(name, scheduler, 1);
    const { machine } = this;
    const { clock } = machine;
    const templates = new TestCache<SandboxTemplate>();
    const quotas = new TestCache<ConversationQuota>();
    templates.set(options.template);
    for (const quota of options.quotas) quotas.set(quota);
    for (const sandbox of options.sandboxes) this.#sandboxes.set(sandbox);
    for (const one of options.conversations) this.#conversations.set(cachedOf(one));
    const runtime = { clock, random: random.fork('jitter').next, logger: trace.logger(name) };
    const caches = {
      conversations: this.#conversations,
      sandboxes: this.#sandboxes,
      templates,
      quotas,
    };
    const stores = {
      conversations: this.#conversations.store,
      sandboxes: this.#sandboxes.store,
      templates: templates.store,
      quotas: quotas.store,
    };
    const channel = new Channel();
    const metrics: Metrics = {
      ...sharedMetrics,
      archiveSeals: new SealResults((result) => this.#results.push(result)),
    };
    this.#archiving = createArchives({
      ...runtime,
      metrics,
      keys,
      client: api.of(machine),
      stores,
      credentials: { of: () => Promise.resolve(options.apiKey) },
      archive: {
        store: measuredStore(store.of(machine), { clock, metrics }),
        codec,
        events: network,
      },
      enqueue: (request, delayMs) => channel.enqueue(request, delayMs),
      events: { record: () => undefined },
      sweep: maxOrphanShare === undefined ? {} : { maxOrphanShare },
    });
    const archives = this.#archiving;
    for (const spec of [
      archiveController({ caches, archives, requested: channel.source }),
      archiveSweepController({ caches, archives }),
    ]) {
      const controller = new Controller({ ...runtime, ...spec });
      for (const source of spec.sources) source(controller);
      controller.start();
    }
  }

  get isAlive(): boolean {
    return this.machine.alive && !this.machine.frozen;
  }

  conversationChanged(
    conversation: Conversation,
    isDeleted: boolean,
    finality: Finality = 'observed',
  ): void {
    const cached = cachedOf(conversation);
    this.#later(() =>
      isDeleted ? this.#conversations.delete(cached, finality) : this.#conversations.set(cached),
    );
  }

  sandboxChanged(sandbox: Sandbox): void {
    this.#later(() => this.#sandboxes.set(sandbox));
  }

  /**
   * The agent of a conversation has reported a state. The operator asks an agent as soon as its
   * caches show that the sandbox runs, and not before.
   */
  observe(conversation: Conversation, report: string): void {
    const { metadata } = conversation;
    const { scheduler } = this.#options;
    this.machine.deliver(() => {
      const known = this.#conversations.store.get(metadata.namespace, metadata.name);
      if (known?.metadata.uid !== metadata.uid) return;
      const sandbox = this.#sandboxes.store.get(
        metadata.namespace,
        known.status?.sandboxName ?? '',
      );
      if (viewOfSandbox(sandbox).phase !== 'RUNNING') {
        const waitMs = this.#arrivesAt - scheduler.monotonic();
        if (waitMs > 0) scheduler.after(waitMs, () => this.observe(conversation, report));
        return;
      }
      this.#archiving.reconciler.observe(known, {
        id: metadata.name,
        executionStatus: 'idle',
        reportedStatus: 'idle',
        updatedAt: report,
        title: undefined,
        lastUserMessageId: undefined,
        metrics: undefined,
      });
    });
  }

  /**
   * Archives what an agent has, as the pause of its sandbox does. Resolves with whether everything
   * is archived of this many conversations, and never where the process ends before that.
   */
  seal(
    sandbox: Sandbox,
    maxMs: number,
    members: number,
  ): Promise<{ readonly isComplete: boolean; readonly tookMs: number }> {
    const { keys, scheduler, api } = this.#options;
    const { machine } = this;
    const run = this.#sealed.then(async () => {
      const endpoint = agentEndpointOf(sandbox, keys);
      if (endpoint === undefined) throw new Error('the sandbox has an agent');
      this.#results = [];
      const startedAt = scheduler.monotonic();
      const waitedMs = api.waitedMs.get(machine) ?? 0;
      let isFailed = false;
      try {
        await this.#archiving.seal.seal(sandbox, endpoint, {
          maxMs,
          isLast: true,
          signal: new AbortController().signal,
        });
      } catch {
        // The API server does not answer; the pause tries again.
        isFailed = true;
      }
      const apiMs = (api.waitedMs.get(machine) ?? 0) - waitedMs;
      const isComplete =
        !isFailed &&
        this.#results.length >= Math.max(1, members) &&
        this.#results.every((one) => one === 'complete');
      return { isComplete, tookMs: scheduler.monotonic() - startedAt - apiMs };
    });
    this.#sealed = run.catch(() => undefined);
    return run;
  }

  #later(change: () => void): void {
    const { scheduler, random } = this.#options;
    const now = scheduler.monotonic();
    this.#arrivesAt = Math.max(this.#arrivesAt, now + random.between(1, this.lagMs));
    scheduler.after(this.#arrivesAt - now, () => this.machine.deliver(change));
  }
}

const cachedOf = (conversation: Conversation): CachedConversation =>
  cachedConversation(structuredClone(conversation));
