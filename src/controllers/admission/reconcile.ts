import type { KubeClient } from '../../kube/client.ts';
import { isoTime, sleep, type Clock } from '../../kube/clock.ts';
import type { Request, Result } from '../../kube/controller.ts';
import { ApiError, isConflict, isNotFound } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Store } from '../../kube/store.ts';
import type { Logger } from '../../observability/logger.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { findCondition } from '../../resources/conditions.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations as conversationKind } from '../../resources/conversation.ts';
import type { CachedPod } from '../../resources/cached-pod.ts';
import { conversationQuotas, type ConversationQuota } from '../../resources/conversation-quota.ts';
import { pods, type Pod } from '../../resources/core.ts';
import { conversationIdOf, ownSandboxName } from '../../resources/ids.ts';
import { isNewerVersion } from '../../resources/object.ts';
import { ownerRule } from '../../resources/quota-rules.ts';
import { SandboxCondition, managedBy, ownerAnnotation, sandboxes, slotTaken, type Sandbox } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { bySandbox, byTemplate } from '../caches.ts';
import { outcomeUnknown, type PodCreations } from '../sandbox/pod-creations.ts';
import { applied, meanwhile } from './decision.ts';
import type { Domain, Step } from './domain.ts';
import { classify, type Slot } from '../../quota/slot.ts';
import { noticesOf, type Notice } from './notices.ts';
import { SlotIndex, type Leftover, type Unsettled } from './slot-index.ts';

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
  /** What this quota says of its sandboxes may have changed. */
  readonly enqueueQuota: (request: Request) => void;
  /** Within so long after it was sent, a write has been executed or never will be, in milliseconds. Default 10,000. */
  readonly settleMs?: number;
}

/** How often what is not settled is looked at. */
const lookAgainMs = 500;
const seedRetryMs = 1_000;

const stateNames = ['active', 'waiting', 'paused'] as const;

/**
 * The one writer of the condition Admitted: decides which sandboxes have a slot. One work item a namespace, and one worker, so
 * that no two decisions are made at once. Nothing is planned in memory alone; whoever comes after a crash decides anew.
 */
export class AdmissionReconciler {
  readonly #options: AdmissionReconcilerOptions;
  readonly #index: SlotIndex;
  readonly #settleMs: number;
  /** Seen by the list at the start and not by the caches. */
  readonly #unseen = new Map<string, Sandbox | ConversationQuota>();

  constructor(options: AdmissionReconcilerOptions) {
    this.#options = options;
    this.#settleMs = options.settleMs ?? 10_000;
    for (const state of stateNames) options.metrics.quotaSlots.set({ state }, 0);
    this.#index = new SlotIndex({
      classify: (sandbox) => this.#classify(sandbox),
      onChange: (namespace, before, after) => this.#changed(namespace, before, after),
    });
  }

  domain(namespace: string): Domain {
    return this.#index.domain(namespace);
  }

  /**
   * What is true now, as against what the caches have heard of: without that, what a leader before has admitted last would not
   * be counted. Called once nobody else leads, before anything is decided.
   */
  async seed(signal?: AbortSignal): Promise<void> {
    for (;;) {
      try {
        await this.#seed(signal);
        return;
      } catch (error) {
        signal?.throwIfAborted();
        this.#options.logger.warn('The state of the quotas could not be read', { error });
        await sleep(this.#options.clock, seedRetryMs, signal);
      }
    }
  }

  async #seed(signal?: AbortSignal): Promise<void> {
    const { client, namespace, stores } = this.#options;
    const scope = { ...(namespace === undefined ? {} : { namespace }), ...(signal === undefined ? {} : { signal }) };
    const quotas = await client.list(conversationQuotas, scope);
    const present = await client.listMapped(sandboxes, (sandbox) => this.#cachedOr(sandbox), scope);
    const labelSelector = Object.entries(managedBy)
      .map(([key, value]) => `${key}=${value}`)
      .join(',');
    // After the sandboxes: a pod whose sandbox is not among them has lost it, since nobody creates any now.
    const left = await client.listMapped(pods, ({ metadata }) => ({ metadata }), { ...scope, labelSelector });
    for (const quota of quotas.items) {
      if (conversationQuotas.accepts?.(quota) === false) continue;
      this.#index.observeQuota(quota);
      if (stores.quotas.get(quota.metadata.namespace, quota.metadata.name)?.metadata.uid !== quota.metadata.uid)
        this.#unseen.set(quota.metadata.uid, quota);
    }
    for (const sandbox of present.items) {
      this.#index.observe(sandbox);
      if (stores.sandboxes.get(sandbox.metadata.namespace, sandbox.metadata.name)?.metadata.uid !== sandbox.metadata.uid)
        this.#unseen.set(sandbox.metadata.uid, sandbox);
    }
    for (const pod of left.items) this.#seedPod(pod);
    for (const name of this.#index.namespaces) this.#rulesChanged(name);
  }

  /** The cache's copy of the same version, so that there are not two of each sandbox in memory. Undefined for an unknown schema. */
  #cachedOr(sandbox: Sandbox): Sandbox | undefined {
    if (sandboxes.accepts?.(sandbox) === false) return undefined;
    const { namespace, name, uid, resourceVersion } = sandbox.metadata;
    const cached = this.#options.stores.sandboxes.get(namespace, name);
    return cached?.metadata.uid === uid && cached.metadata.resourceVersion === resourceVersion ? cached : sandbox;
  }

  #seedPod(pod: Pick<Pod, 'metadata'>): void {
    const { namespace = '', name, annotations, ownerReferences } = pod.metadata;
    const owner = ownerReferences?.find(({ kind }) => kind === sandboxes.kind);
    if (owner === undefined) return;
    const known = this.#index.sandbox(owner.uid);
    if (known !== undefined && slotTaken(known)) return;
    const sandbox: Sandbox = known ?? {
      apiVersion: owner.apiVersion,
      kind: owner.kind,
      metadata: {
        name: owner.name,
        namespace,
        uid: owner.uid,
        resourceVersion: '0',
        generation: 1,
        creationTimestamp: pod.metadata.creationTimestamp,
      },
      spec: { owner: annotations?.[ownerAnnotation] ?? '', templateName: '', replicas: 0 },
    };
    this.#index.addLeftover({ sandboxUid: owner.uid, namespace, podName: name }, sandbox);
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
    const { namespace } = conversation.metadata;
    const names = new Set([ownSandboxName(conversationIdOf(conversation)), conversation.status?.sandboxName]);
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

  podGone({ metadata: { namespace = '' } }: CachedPod): void {
    if (this.#index.leftovers(namespace).length > 0) this.#enqueue(namespace);
  }

  async reconcile({ namespace }: Request, signal: AbortSignal): Promise<Result> {
    const { clock, metrics } = this.#options;
    const waitMs = [await this.#lookAgain(namespace, signal)];
    for (;;) {
      signal.throwIfAborted();
      const began = performance.now();
      const domain = this.#index.domain(namespace);
      const step = domain.next(clock.now());
      metrics.admissionDecisionSeconds.observe((performance.now() - began) / 1000);
      if (step === undefined) {
        waitMs.push(domain.wakeAt - clock.now());
        break;
      }
      await this.#take(namespace, step, signal);
    }
    if (this.#index.unsettled(namespace).length > 0) waitMs.push(lookAgainMs);
    const requeueAfterMs = Math.min(...waitMs);
    return requeueAfterMs === Infinity ? undefined : { requeueAfterMs: Math.max(1, requeueAfterMs) };
  }

  async #take(namespace: string, step: Step, signal: AbortSignal): Promise<void> {
    const { client, clock, logger } = this.#options;
    const { sandbox } = step.slot;
    const next = applied(step, ownerRule(this.#index.domain(namespace).rules, step.slot.owner), isoTime(clock));
    const sentAt = clock.monotonic();
    try {
      const answer = await client.updateStatus(sandboxes, next, { signal });
      // An answer that comes after the deletion was seen must not bring it back: nobody would tell a second time.
      if (this.#index.sandbox(sandbox.metadata.uid) !== undefined) this.#index.observe(answer);
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) {
        await this.#refresh(sandbox, signal);
        return;
      }
      if (!outcomeUnknown(error)) {
        if (!(error instanceof ApiError) || error.status === 429) throw error;
        // It is refused, whatever the reason: that must not keep the others waiting.
        logger.error('A decision was refused', { namespace, sandbox: sandbox.metadata.name, kind: step.kind, error });
      }
      this.#index.unsettle(sandbox, { ...meanwhile(step), until: sentAt + this.#settleMs });
      return;
    }
    this.#explain(step, next);
  }

  async #refresh(sandbox: Sandbox, signal: AbortSignal): Promise<void> {
    const { namespace, name, uid } = sandbox.metadata;
    let stored: Sandbox | undefined;
    try {
      stored = await this.#options.client.get(sandboxes, namespace, name, { signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    if (stored?.metadata.uid !== uid) this.#index.forget(this.#index.sandbox(uid) ?? sandbox);
    if (stored === undefined || sandboxes.accepts?.(stored) === false) return;
    this.#index.observe(stored);
    if (this.#options.stores.sandboxes.get(namespace, name)?.metadata.uid !== stored.metadata.uid)
      this.#unseen.set(stored.metadata.uid, stored);
  }

  /** Asks the API server for what no watch will tell. Returns in how many milliseconds to do so again. */
  async #lookAgain(namespace: string, signal: AbortSignal): Promise<number> {
    const unseen = await this.#findUnseen(namespace, signal);
    for (const unsettled of this.#index.unsettled(namespace)) await this.#settle(unsettled, signal);
    let againMs = unseen || this.#index.unsettled(namespace).length > 0 ? lookAgainMs : Infinity;
    for (const leftover of this.#index.leftovers(namespace)) {
      if (!(await this.#clear(leftover, signal))) againMs = lookAgainMs;
    }
    return againMs;
  }

  async #settle({ sandbox, until }: Unsettled, signal: AbortSignal): Promise<void> {
    // Before the question: a write may be executed between the answer and the deadline.
    const over = this.#options.clock.monotonic() >= until;
    await this.#refresh(sandbox, signal);
    const known = this.#index.sandbox(sandbox.metadata.uid);
    if (over && known !== undefined && !isNewerVersion(known, sandbox)) this.#index.settle(sandbox);
  }

  /** True when the pod of a sandbox that is gone is gone too, and none can come. */
  async #clear(leftover: Leftover, signal: AbortSignal): Promise<boolean> {
    const { client, podCreations } = this.#options;
    const { sandboxUid, namespace, podName } = leftover;
    if (podCreations.unsettledMs(sandboxUid) > 0) return false;
    try {
      const pod = await client.get(pods, namespace, podName, { signal });
      if (pod.metadata.ownerReferences?.some(({ uid }) => uid === sandboxUid) === true) return false;
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    this.#index.removeLeftover(leftover);
    return true;
  }

  /** As long as a cache has never shown an object, it may never tell that it is gone. Returns whether some are left. */
  async #findUnseen(namespace: string, signal: AbortSignal): Promise<boolean> {
    const { stores, client } = this.#options;
    let left = false;
    for (const [uid, object] of this.#unseen) {
      const { name } = object.metadata;
      if (object.metadata.namespace !== namespace) continue;
      const seen = isSandbox(object) ? stores.sandboxes.get(namespace, name) : stores.quotas.get(namespace, name);
      if (seen?.metadata.uid === uid) {
        this.#unseen.delete(uid);
      } else if (isSandbox(object)) {
        await this.#refresh(object, signal);
        if (this.#index.sandbox(uid) === undefined) this.#unseen.delete(uid);
        else left = true;
      } else {
        const stored = await client.get(conversationQuotas, namespace, name, { signal }).catch((error: unknown) => {
          if (isNotFound(error)) return undefined;
          throw error;
        });
        if (stored?.metadata.uid === uid) {
          left = true;
        } else {
          this.#unseen.delete(uid);
          this.forgetQuota(object);
        }
      }
    }
    return left;
  }

  /** Those of its owner that are in it, and those that it was made for, which may not know its name yet. */
  #conversationsOf({ metadata, spec }: Sandbox): readonly CachedConversation[] {
    const { conversations } = this.#options.stores;
    const { namespace, name } = metadata;
    const found = new Map(
      conversations.byIndex(bySandbox, `${namespace}/${name}`).map((conversation) => [conversation.metadata.uid, conversation]),
    );
    for (const made of this.#makersOf(metadata)) if (made !== undefined) found.set(made.metadata.uid, made);
    return [...found.values()].filter(({ spec: { owner } }) => owner === spec.owner);
  }

  /** The conversations that a sandbox was made for; undefined for one that the cache does not show. */
  #makersOf({ namespace, ownerReferences = [] }: Sandbox['metadata']): readonly (CachedConversation | undefined)[] {
    const owners = ownerReferences.filter(({ kind }) => kind === conversationKind.kind);
    return owners.map(({ uid, name }) => {
      const made = this.#options.stores.conversations.get(namespace, name);
      return made?.metadata.uid === uid ? made : undefined;
    });
  }

  #classify(sandbox: Sandbox): Slot {
    const { stores, clock } = this.#options;
    return classify({
      sandbox,
      conversations: this.#conversationsOf(sandbox),
      // The cache may be behind: what it does not show may be on its way.
      unknownStart: this.#makersOf(sandbox.metadata).includes(undefined),
      limits: stores.templates.get(sandbox.metadata.namespace, sandbox.spec.templateName)?.spec,
      now: clock.now(),
    });
  }

  #changed(namespace: string, before: Slot | undefined, after: Slot | undefined): void {
    const { quotaSlots } = this.#options.metrics;
    const old = before === undefined ? undefined : countedAs(before);
    const now = after === undefined ? undefined : countedAs(after);
    if (old !== now) {
      if (old !== undefined) quotaSlots.dec({ state: old });
      if (now !== undefined) quotaSlots.inc({ state: now });
    }
    const owner = after?.owner ?? before?.owner;
    if (owner === undefined) return;
    const { rules } = this.#index.domain(namespace);
    for (const rule of [ownerRule(rules, owner), rules.namespace]) {
      if (rule === undefined) continue;
      // Those that it has overruled count the same sandboxes.
      for (const name of rules.conflicts.get(rule.quotaName) ?? [rule.quotaName]) this.#options.enqueueQuota({ namespace, name });
    }
  }

  #rulesChanged(namespace: string): void {
    for (const { metadata } of this.#index.quotas(namespace)) this.#options.enqueueQuota({ namespace, name: metadata.name });
    this.#enqueue(namespace);
  }

  #enqueue(namespace: string): void {
    this.#options.enqueue({ namespace, name: '' });
  }

  #explain(step: Step, sandbox: Sandbox): void {
    const { logger, metrics, clock } = this.#options;
    const { slot } = step;
    const message = findCondition(sandbox.status?.conditions, SandboxCondition.admitted)?.message ?? '';
    logger.debug('Admission decided', { sandbox: slot.name, kind: step.kind, message });
    if (step.kind === 'admit' && !step.resumed) metrics.admissionWaitSeconds.observe(Math.max(0, clock.now() - slot.requestedAt) / 1000);
    if (step.kind === 'expire') metrics.quotaPauses.inc({ reason: step.reason });
    if (step.kind === 'evict') {
      metrics.quotaPauses.inc({ reason: step.beneficiary === undefined ? 'LimitLowered' : 'Newcomer' });
      logger.info('sandbox paused by quota', { sandbox: slot.name, for: step.beneficiary?.name, limit: step.rule.limit });
    }
    for (const notice of noticesOf(step, message)) this.#tell(notice);
  }

  /** To the conversations of a sandbox; to the sandbox where it has none. */
  #tell({ slot: { sandbox }, reason, message }: Notice): void {
    const inIt = this.#conversationsOf(sandbox);
    for (const object of inIt.length > 0 ? inIt : [sandbox]) this.#options.events.record(object, { type: 'Normal', reason, message });
  }
}

const countedAs = ({ state, taken }: Slot): (typeof stateNames)[number] | undefined => {
  if (taken) return 'active';
  if (state === 'waiting') return 'waiting';
  return state === 'resumable' ? 'paused' : undefined;
};

const isSandbox = (object: Sandbox | ConversationQuota): object is Sandbox => object.kind === sandboxes.kind;
