import type { KubeClient } from '@conversation-operator/kube/client';
import { isoTime, sleep, type Clock } from '@conversation-operator/kube/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { ApiError, isConflict, isNotFound } from '@conversation-operator/kube/errors';
import type { EventRecorder } from '@conversation-operator/kube/events';
import type { Store } from '@conversation-operator/kube/store';
import type { Logger } from '@conversation-operator/kube/logger';
import type { Metrics } from '../../observability/metrics.ts';
import type { Slot } from '../../quota/slot.ts';
import { findCondition } from '../../resources/conditions.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations as conversationKind } from '../../resources/conversation.ts';
import type { CachedPod } from '../../resources/cached-pod.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { conversationIdOf, ownSandboxName } from '../../resources/ids.ts';
import { ownerRule } from '../../resources/quota-rules.ts';
import { SandboxCondition, sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { byTemplate } from '../caches.ts';
import { outcomeUnknown, type PodCreations } from '../sandbox/pod-creations.ts';
import { decidedSandbox, assumedSlot } from './decided-status.ts';
import type { AdmissionQueue } from '../../quota/admission-queue.ts';
import { OrphanedPods } from './orphaned-pods.ts';
import { eventsOf, type DecisionEvent } from './events.ts';
import { SandboxClassifier } from './sandbox-classifier.ts';
import { seed } from './seed.ts';
import { SlotIndex } from './slot-index.ts';
import { SteadyTimes } from './steady-times.ts';
import { StoredLimits } from './stored-limits.ts';
import type { Decision } from '../../quota/decision.ts';
import { LiveReads } from './live-reads.ts';

export interface AdmissionReconcilerOptions {
  readonly client: KubeClient;
  readonly stores: {
    readonly sandboxes: Store<Sandbox>;
    readonly conversations: Store<CachedConversation>;
    readonly templates: Store<SandboxTemplate>;
    readonly quotas: Store<ConversationQuota>;
    readonly pods: Store<CachedPod>;
  };
  readonly podCreations: PodCreations;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Where it works; absent: in all namespaces. */
  readonly namespace?: string | undefined;
  /** Something of the namespace has to be looked at. */
  readonly enqueue: (request: Request) => void;
  /** Something has to be read: `lookUp` is to be called with this. */
  readonly enqueueRead: (request: Request) => void;
  /** What this quota says of its sandboxes may have changed; `isSmall`: by some bytes. */
  readonly enqueueQuota: (request: Request, isSmall?: boolean) => void;
  /** Within so long after it was sent, a write has been executed or never will be, in milliseconds. Default 10,000. */
  readonly settleMs?: number;
}

const seedRetryMs = 1_000;

const stateNames = ['active', 'waiting', 'paused'] as const;

/**
 * The one writer of the condition Admitted: decides which sandboxes have a slot. One work item a namespace, and one worker, so
 * that no two decisions are made at once. Nothing is planned in memory alone; whoever comes after a crash decides anew. What has to
 * be read is read beside the decisions, which never wait for that: until it is known, everything counts as the most that it may be.
 */
export class AdmissionReconciler {
  readonly #options: AdmissionReconcilerOptions;
  readonly #times: SteadyTimes;
  readonly #classifier: SandboxClassifier;
  readonly #index: SlotIndex;
  readonly #orphaned: OrphanedPods;
  readonly #limits: StoredLimits;
  readonly #reads: LiveReads;
  readonly #settleMs: number;

  constructor(options: AdmissionReconcilerOptions) {
    const { enqueueRead: enqueueLookup, metrics } = options;
    this.#options = options;
    this.#settleMs = options.settleMs ?? 10_000;
    for (const state of stateNames) metrics.quotaSlots.set({ state }, 0);
    this.#times = new SteadyTimes(options.clock);
    this.#classifier = new SandboxClassifier({ ...options, times: this.#times });
    this.#index = new SlotIndex({
      now: () => this.#times.now(),
      classify: (sandbox) => this.#classifier.classify(sandbox),
      onChange: (namespace, before, after) => this.#changed(namespace, before, after),
      onOrphaned: ({ namespace, podName }) => enqueueLookup({ namespace, name: `pod/${podName}` }),
    });
    this.#limits = new StoredLimits({
      ...options,
      queue: (namespace) => this.#index.queue(namespace),
      onChange: (namespace, owner, { isSmall }) => this.#enqueueQuotasOf(namespace, owner, isSmall),
    });
    this.#orphaned = new OrphanedPods({ ...options, index: this.#index });
    this.#reads = new LiveReads({
      ...options,
      index: this.#index,
      onUnseen: (object) => this.#enqueueLookupOf(object),
      onQuotaGone: (quota) => this.forgetQuota(quota),
    });
  }

  queue(namespace: string): AdmissionQueue {
    return this.#index.queue(namespace);
  }

  /** What quotas say of what is stored. */
  get limits(): StoredLimits {
    return this.#limits;
  }

  /**
   * What is true now, as against what the caches have heard of: without that, what a leader before has admitted last would not
   * be counted. Called once nobody else leads, before anything is decided.
   */
  async seed(signal?: AbortSignal): Promise<void> {
    const { client, stores, namespace, logger, clock } = this.#options;
    for (;;) {
      try {
        await seed({ client, stores, namespace, signal, index: this.#index, onSeen: (object) => this.#reads.watch(object) });
        for (const name of this.#index.namespaces) this.#rulesChanged(name);
        return;
      } catch (error) {
        signal?.throwIfAborted();
        logger.warn('The state of the quotas could not be read', { error });
        await sleep(clock, seedRetryMs, signal);
      }
    }
  }

  observe(sandbox: Sandbox): void {
    this.#index.observe(sandbox);
    this.#observeMakerOf(sandbox);
    this.#enqueue(sandbox.metadata.namespace);
  }

  forget(sandbox: Sandbox): void {
    this.#index.forget(sandbox);
    this.#enqueue(sandbox.metadata.namespace);
  }

  /** The conversation that a sandbox was made for does not wait for one any more. */
  #observeMakerOf({ metadata: { namespace, ownerReferences = [] } }: Sandbox): void {
    for (const { kind, name, uid } of ownerReferences) {
      const maker = kind === conversationKind.kind ? this.#options.stores.conversations.get(namespace, name) : undefined;
      if (maker?.metadata.uid === uid) this.#limits.observe(maker);
    }
  }

  forgetConversation(conversation: CachedConversation): void {
    this.#limits.forget(conversation);
    this.#classifier.forgetConversation(conversation);
    this.#reclassifySandboxesOf(conversation);
  }

  observeConversation(conversation: CachedConversation): void {
    this.#limits.observe(conversation);
    this.#reclassifySandboxesOf(conversation);
  }

  #reclassifySandboxesOf(conversation: CachedConversation): void {
    const { namespace } = conversation.metadata;
    const { spec, status } = conversation;
    // A sandbox knows who joins it before the conversation has stored that, and a start may fail in between.
    const names = new Set([ownSandboxName(conversationIdOf(conversation)), spec.sandboxName, status?.sandboxName]);
    for (const name of names) {
      const sandbox = name === undefined ? undefined : this.#options.stores.sandboxes.get(namespace, name);
      if (sandbox !== undefined) this.#index.reclassify(sandbox.metadata.uid);
    }
    this.#enqueue(namespace);
  }

  observeTemplate({ metadata: { namespace, name } }: SandboxTemplate): void {
    for (const sandbox of this.#options.stores.sandboxes.byIndex(byTemplate, `${namespace}/${name}`))
      this.#index.reclassify(sandbox.metadata.uid);
    this.#enqueue(namespace);
  }

  observeQuota(quota: ConversationQuota): void {
    // Also where it was known before the cache showed it: only from then on its status can be written.
    this.#options.enqueueQuota({ namespace: quota.metadata.namespace, name: quota.metadata.name });
    if (this.#index.observeQuota(quota)) this.#rulesChanged(quota.metadata.namespace);
  }

  forgetQuota(quota: ConversationQuota): void {
    this.#index.forgetQuota(quota);
    this.#rulesChanged(quota.metadata.namespace);
  }

  podGone({ metadata: { namespace = '', name } }: CachedPod): void {
    if (this.#index.orphanedSlots(namespace, name).length === 0) return;
    this.#orphaned.gone(namespace, name);
    this.#options.enqueueRead({ namespace, name: `pod/${name}` });
  }

  /** Reads what `enqueueLookup` has asked for. May run many times at once, for different requests. */
  async read({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const [kind = '', key = ''] = name.split('/');
    const result = kind === 'pod' ? await this.#orphaned.read(namespace, key, signal) : await this.#reads.read(key, signal);
    this.#enqueue(namespace);
    return result;
  }

  async reconcile({ namespace }: Request, signal: AbortSignal): Promise<Result> {
    const { metrics } = this.#options;
    if (this.#index.rulesChangeAt(namespace) <= this.#times.now()) this.#rulesChanged(namespace);
    for (;;) {
      signal.throwIfAborted();
      const began = performance.now();
      const domain = this.#index.queue(namespace);
      const step = domain.next(this.#times.now());
      metrics.admissionDecisionSeconds.observe((performance.now() - began) / 1000);
      if (step !== undefined) {
        await this.#take(namespace, step, signal);
        continue;
      }
      const wakeInMs = Math.min(domain.wakeAt, this.#index.rulesChangeAt(namespace)) - this.#times.now();
      return wakeInMs === Infinity ? undefined : { requeueAfterMs: Math.max(1, wakeInMs) };
    }
  }

  async #take(namespace: string, step: Decision, signal: AbortSignal): Promise<void> {
    const { client, clock, logger } = this.#options;
    const { sandbox } = step.slot;
    const next = decidedSandbox(step, ownerRule(this.#index.queue(namespace).rules, step.slot.owner), isoTime(clock));
    const sentAt = clock.monotonic();
    try {
      const answer = await client.updateStatus(sandboxes, next, { signal });
      // An answer that comes after the deletion was seen must not bring it back: nobody would tell a second time.
      if (this.#index.sandbox(sandbox.metadata.uid) !== undefined) this.#index.observe(answer);
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) {
        await this.#reads.refresh(sandbox, signal);
        return;
      }
      if (!outcomeUnknown(error)) {
        if (!(error instanceof ApiError) || error.status === 429) throw error;
        // It is refused, whatever the reason: that must not keep the others waiting.
        logger.error('A decision was refused', { namespace, sandbox: sandbox.metadata.name, kind: step.kind, error });
      }
      this.#index.assume(sandbox, { ...assumedSlot(step), until: sentAt + this.#settleMs });
      this.#enqueueLookupOf(sandbox);
      return;
    }
    this.#explain(step, next);
  }

  #changed(namespace: string, before: Slot | undefined, after: Slot | undefined): void {
    const { quotaSlots } = this.#options.metrics;
    const old = before === undefined ? undefined : countedAs(before);
    const now = after === undefined ? undefined : countedAs(after);
    if (old !== now) {
      if (old !== undefined) quotaSlots.dec({ state: old });
      if (now !== undefined) quotaSlots.inc({ state: now });
    }
    if (before !== undefined && after === undefined) this.#times.forget(before.sandbox.metadata.uid);
    const owner = after?.owner ?? before?.owner;
    if (owner !== undefined) this.#enqueueQuotasOf(namespace, owner);
  }

  #enqueueQuotasOf(namespace: string, owner: string, isSmall = false): void {
    const { rules } = this.#index.queue(namespace);
    for (const rule of [ownerRule(rules, owner), rules.namespace]) {
      if (rule === undefined) continue;
      // Those that it has overruled count the same sandboxes.
      for (const name of rules.conflicts.get(rule.quotaName) ?? [rule.quotaName]) this.#options.enqueueQuota({ namespace, name }, isSmall);
    }
  }

  #rulesChanged(namespace: string): void {
    for (const { metadata } of this.#index.quotas(namespace)) this.#options.enqueueQuota({ namespace, name: metadata.name });
    this.#enqueue(namespace);
  }

  #enqueue(namespace: string): void {
    this.#options.enqueue({ namespace, name: '' });
  }

  #enqueueLookupOf({ metadata: { namespace, uid } }: Sandbox | ConversationQuota): void {
    this.#options.enqueueRead({ namespace, name: `object/${uid}` });
  }

  #explain(step: Decision, sandbox: Sandbox): void {
    const { logger, metrics, clock } = this.#options;
    const { slot } = step;
    const message = findCondition(sandbox.status?.conditions, SandboxCondition.admitted)?.message ?? '';
    logger.debug('Admission decided', { sandbox: slot.name, kind: step.kind, message });
    if (step.kind === 'admit' && !step.resumed) metrics.admissionWaitSeconds.observe(Math.max(0, clock.now() - slot.requestedAt) / 1000);
    if (step.kind === 'expire') metrics.quotaPauses.inc({ reason: step.reason });
    if (step.kind === 'evict') {
      metrics.quotaPauses.inc({ reason: step.preemptor === undefined ? 'LimitLowered' : 'Newcomer' });
      logger.info('sandbox paused by quota', { sandbox: slot.name, for: step.preemptor?.name, limit: step.rule.limit });
    }
    for (const notice of eventsOf(step, message)) this.#tell(notice);
  }

  /** To the conversations of a sandbox; to the sandbox where it has none. */
  #tell({ slot: { sandbox }, reason, message }: DecisionEvent): void {
    const inIt = this.#classifier.conversationsOf(sandbox);
    for (const object of inIt.length > 0 ? inIt : [sandbox]) this.#options.events.record(object, { type: 'Normal', reason, message });
  }
}

const countedAs = ({ state, taken }: Slot): (typeof stateNames)[number] | undefined => {
  if (taken) return 'active';
  if (state === 'waiting') return 'waiting';
  return state === 'resumable' ? 'paused' : undefined;
};
