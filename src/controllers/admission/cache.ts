import type { KubeClient } from '@conversation-operator/kube/client';
import { sleep, type Clock } from '@conversation-operator/base/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import type { Logger } from '@conversation-operator/base/logger';
import type { Metrics } from '../../observability/metrics.ts';
import type { Snapshot } from '../../quota/snapshot.ts';
import type { Slot } from '../../quota/slot.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { CachedPod } from '../../resources/cached-pod.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { ownerRule } from '../../resources/quota-rules.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { byNamed, byTemplate, type Stores } from '../caches.ts';
import type { PodCreations } from '../sandbox/pod-creations.ts';
import { LiveReads } from './live-reads.ts';
import { OrphanedPods } from './orphaned-pods.ts';
import { SandboxClassifier } from './sandbox-classifier.ts';
import { seed } from './seed.ts';
import { SlotIndex, type Assumed } from './slot-index.ts';
import { countSlot } from './slot-metrics.ts';
import { SteadyTimes } from './steady-times.ts';
import { StoredLimits } from './stored-limits.ts';

/** The state of a slot that a write leads to. */
type AssumedOutcome = Pick<Slot, 'state' | 'taken'> & Pick<Assumed, 'owner'>;

export interface AdmissionCacheOptions {
  readonly client: KubeClient;
  readonly stores: Pick<Stores, 'sandboxes' | 'conversations' | 'templates' | 'quotas' | 'pods'>;
  readonly podCreations: PodCreations;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Absent: all namespaces. */
  readonly namespace?: string | undefined;
  /** Requests a decision in a namespace. */
  readonly enqueue: (request: Request) => void;
  /** Requests a call of `read`. */
  readonly enqueueRead: (request: Request) => void;
  /**
   * Requests a new status of a quota; `isSmall`: only the size of stored conversations has changed.
   */
  readonly enqueueQuota: (request: Request, isSmall?: boolean) => void;
}

const seedRetryMs = 1_000;

/**
 * The state on which admission decides, like the cache of kube-scheduler: watches, live reads and
 * own writes update it, and no decision waits for a read. An assumed write, and a pod that may
 * still exist, count as a taken slot until a read shows the truth.
 */
export class AdmissionCache {
  readonly #options: AdmissionCacheOptions;
  readonly #times: SteadyTimes;
  readonly #classifier: SandboxClassifier;
  readonly #index: SlotIndex;
  readonly #orphaned: OrphanedPods;
  readonly #reads: LiveReads;
  /** The limits of quotas on stored objects. */
  readonly limits: StoredLimits;

  constructor(options: AdmissionCacheOptions) {
    const { clock, metrics, enqueueRead } = options;
    this.#options = options;
    this.#times = new SteadyTimes(clock);
    this.#classifier = new SandboxClassifier({ ...options, times: this.#times });
    countSlot(metrics, undefined, undefined);
    this.#index = new SlotIndex({
      now: () => this.now(),
      classify: (sandbox) => this.#classifier.classify(sandbox),
      onChange: (namespace, before, after) => this.#slotChanged(namespace, before, after),
      onOrphaned: ({ namespace, podName }) => enqueueRead({ namespace, name: `pod/${podName}` }),
    });
    this.limits = new StoredLimits({
      snapshot: (namespace) => this.snapshot(namespace),
      onChange: (namespace, owner, { isSmall }) => this.#enqueueQuotasOf(namespace, owner, isSmall),
    });
    this.#orphaned = new OrphanedPods({ ...options, index: this.#index });
    this.#reads = new LiveReads({
      ...options,
      index: this.#index,
      onUnseen: (object) => this.#enqueueReadOf(object),
      onQuotaDeleted: (quota) => this.forgetQuota(quota),
    });
  }

  /** Milliseconds since 1970, by a clock that never goes back. */
  now(): number {
    return this.#times.now();
  }

  snapshot(namespace: string): Snapshot {
    return this.#index.snapshot(namespace);
  }

  /** The newest known version of every sandbox. */
  sandboxes(): Iterable<Sandbox> {
    return this.#index.sandboxes();
  }

  /** Time when the rules of a namespace change without any event; Infinity: never. */
  rulesChangeAt(namespace: string): number {
    return this.#index.rulesChangeAt(namespace);
  }

  /**
   * Lists the objects of the API server, because the watches may lack what the leader before has
   * admitted last. Called once, when no other operator leads any more, before the first decision.
   *
   * @returns The function that takes the objects over. The caller connects the watches before.
   */
  async seed(signal?: AbortSignal): Promise<() => void> {
    const { client, stores, namespace, logger, clock } = this.#options;
    for (;;) {
      try {
        const fill = await seed({
          client,
          stores,
          namespace,
          signal,
          index: this.#index,
          onSeen: (object) => this.#reads.watch(object),
        });
        return () => {
          fill();
          for (const name of this.#index.namespaces) this.rulesChanged(name);
        };
      } catch (error) {
        signal?.throwIfAborted();
        logger.warn('The state of the quotas could not be read', { error });
        await sleep(clock, seedRetryMs, signal);
      }
    }
  }

  observe(sandbox: Sandbox): void {
    this.#index.observe(sandbox);
    this.#enqueue(sandbox.metadata.namespace);
  }

  forget(sandbox: Sandbox): void {
    this.#index.forget(sandbox);
    this.#enqueue(sandbox.metadata.namespace);
  }

  observeConversation(conversation: CachedConversation): void {
    this.limits.observe(conversation);
    this.#reclassifySandboxesOf(conversation);
  }

  forgetConversation(conversation: CachedConversation): void {
    this.limits.forget(conversation);
    this.#classifier.forgetConversation(conversation);
    this.#reclassifySandboxesOf(conversation);
  }

  #reclassifySandboxesOf(conversation: CachedConversation): void {
    const { metadata, spec, status } = conversation;
    const { namespace } = metadata;
    // A sandbox names a conversation that joins it before the conversation stores that, and a start
    // may fail in between.
    const { sandboxes } = this.#options.stores;
    const named = [spec.sandboxName, status?.sandboxName].flatMap((name) =>
      name === undefined ? [] : (sandboxes.get(namespace, name) ?? []),
    );
    const naming = sandboxes.byIndex(byNamed, metadata.uid);
    for (const sandbox of new Set([...naming, ...named]))
      this.#index.reclassify(sandbox.metadata.uid);
    this.#enqueue(namespace);
  }

  observeTemplate({ metadata: { namespace, name } }: SandboxTemplate): void {
    for (const sandbox of this.#options.stores.sandboxes.byIndex(
      byTemplate,
      `${namespace}/${name}`,
    ))
      this.#index.reclassify(sandbox.metadata.uid);
    this.#enqueue(namespace);
  }

  observeQuota(quota: ConversationQuota): void {
    if (this.#index.observeQuota(quota)) this.rulesChanged(quota.metadata.namespace);
  }

  forgetQuota(quota: ConversationQuota): void {
    this.#index.forgetQuota(quota);
    this.rulesChanged(quota.metadata.namespace);
  }

  podDeleted({ metadata: { namespace = '', name } }: CachedPod): void {
    if (this.#index.orphanedSlots(namespace, name).length === 0) return;
    this.#orphaned.podDeleted(namespace, name);
    this.#options.enqueueRead({ namespace, name: `pod/${name}` });
  }

  /** Reads an object that `enqueueRead` has named. */
  async read({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const [kind = '', key = ''] = name.split('/');
    const result =
      kind === 'pod'
        ? await this.#orphaned.read(namespace, key, signal)
        : await this.#reads.read(key, signal);
    this.#enqueue(namespace);
    return result;
  }

  /**
   * Counts a sandbox with the outcome of a write that is sent now, and keeps it from other
   * decisions, until one of `confirm`, `refresh`, `assume` and `notExecuted` takes over.
   * `claimant`: the conversation whose start claims the sandbox by the write.
   */
  sent(sandbox: Sandbox, outcome: AssumedOutcome, claimant?: CachedConversation): void {
    if (claimant !== undefined) this.limits.claimed(sandbox, claimant);
    this.#index.assume(sandbox, { ...outcome, until: Infinity });
  }

  /** Whether this is the newest known version of the sandbox, and no write of it is under way. */
  isNewest({ metadata: { uid, resourceVersion } }: Sandbox): boolean {
    return (
      this.#index.assumed(uid) === undefined &&
      this.#index.sandbox(uid)?.metadata.resourceVersion === resourceVersion
    );
  }

  /**
   * Takes over the answer to a write, unless a watch has shown the deletion of the sandbox before.
   */
  confirm(answer: Sandbox): void {
    const { uid } = answer.metadata;
    if (this.#index.sandbox(uid) === undefined) return;
    this.#index.observe(answer);
    this.#index.forgetAssumed(uid);
  }

  /** Forgets what was assumed of a write that the API server has not executed. */
  notExecuted({ metadata: { uid } }: Sandbox): void {
    this.#index.forgetAssumed(uid);
  }

  /** Reads a sandbox whose write has met another version. */
  async refresh(sandbox: Sandbox, signal: AbortSignal): Promise<void> {
    try {
      await this.#reads.refresh(sandbox, signal);
    } finally {
      // The write was refused, whether or not the read succeeds.
      this.#index.forgetAssumed(sandbox.metadata.uid);
    }
  }

  /**
   * Assumes that a write of unknown outcome has taken a slot, until a read after `until` (by the
   * monotonic clock) shows the truth.
   */
  assume(sandbox: Sandbox, outcome: AssumedOutcome & { readonly until: number }): void {
    this.#index.forgetAssumed(sandbox.metadata.uid);
    this.#index.assume(sandbox, outcome);
    this.#enqueueReadOf(sandbox);
  }

  conversationsOf(sandbox: Sandbox): readonly CachedConversation[] {
    return this.#classifier.conversationsOf(sandbox);
  }

  rulesChanged(namespace: string): void {
    for (const { metadata } of this.#index.quotas(namespace))
      this.#options.enqueueQuota({ namespace, name: metadata.name });
    this.#enqueue(namespace);
  }

  #slotChanged(namespace: string, before: Slot | undefined, after: Slot | undefined): void {
    countSlot(this.#options.metrics, before, after);
    const slot = after ?? before;
    if (slot === undefined) return;
    this.limits.slotChanged(namespace, slot, after === undefined);
    if (before !== undefined && after === undefined)
      this.#times.forget(before.sandbox.metadata.uid);
    this.#enqueueQuotasOf(namespace, slot.owner);
  }

  #enqueueQuotasOf(namespace: string, owner: string, isSmall = false): void {
    const { rules } = this.snapshot(namespace);
    for (const rule of [ownerRule(rules, owner), rules.namespace]) {
      if (rule === undefined) continue;
      // A quota that conflicts with the rule counts the same sandboxes.
      for (const name of rules.conflicts.get(rule.quotaName) ?? [rule.quotaName])
        this.#options.enqueueQuota({ namespace, name }, isSmall);
    }
  }

  #enqueue(namespace: string): void {
    this.#options.enqueue({ namespace, name: '' });
  }

  #enqueueReadOf({ metadata: { namespace, uid } }: Sandbox | ConversationQuota): void {
    this.#options.enqueueRead({ namespace, name: `object/${uid}` });
  }
}
