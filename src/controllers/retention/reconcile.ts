import type { Metrics } from '../../observability/metrics.ts';
import type { Logger } from '@conversation-operator/base/logger';
import { isDeepStrictEqual } from 'node:util';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { isNotFound } from '@conversation-operator/kube/errors';
import { isLive } from '@conversation-operator/kube/object';
import type { EventRecorder } from '@conversation-operator/kube/events';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { findCondition, type Condition } from '../../resources/conditions.ts';
import { ConversationCondition } from '../../resources/conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { bySandbox, byTemplate, type WatchedCaches } from '../caches.ts';
import { type RetentionRule, decideRetention, type RetentionStep } from './countdown.ts';
import {
  RetentionSubjects,
  isConversation,
  resourceFor,
  type RetentionSubject,
  type RetentionSubjectsOptions,
} from './subjects.ts';
import { ElapsedTimes } from '../elapsed-times.ts';
import { observe, type ControllerSpec, type EventSource, workers } from '../controller-spec.ts';

/** Times in milliseconds that protect objects from an unexpected deletion. */
export interface RetentionTimes {
  /** Minimum time between the announcement and the deletion. Default 60,000. */
  readonly minLeadMs: number;
  /** Minimum monotonic time for which an object is found due before deletion. Default 120,000. */
  readonly confirmMs: number;
}

export interface RetentionReconcilerOptions extends RetentionSubjectsOptions {
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly enqueue: (request: Request) => void;
  readonly times?: Partial<RetentionTimes> | undefined;
}

/** Maximum delay of a requeue, because the wall clock may be set in the meantime. */
const maxWaitMs = 3_600_000;
/** Delay before the next reconcile after a write that no cache has shown yet. */
const silentWatchMs = 5_000;

type AnnounceStep = Extract<RetentionStep, { readonly kind: 'announce' }>;

const announcedOf = ({ status }: CachedConversation | Sandbox): Condition | undefined =>
  findCondition(status?.conditions, ConversationCondition.expiring);

/** The name begins with the plural of the kind, because both kinds share a queue. */
const requestOf = (object: CachedConversation | Sandbox): Request => ({
  namespace: object.metadata.namespace,
  name: `${resourceFor(object).plural}/${object.metadata.name}`,
});

/**
 * Deletes objects by `ttlSecondsAfterFinished` and the `retention` of templates. Announces each
 * deletion. Before a deletion, reads the object from the API server and decides again. Its
 * resourceVersion is the precondition of the deletion, so an object that was used meanwhile stays.
 */
export class RetentionReconciler {
  readonly #options: RetentionReconcilerOptions;
  readonly #due: ElapsedTimes;
  readonly #subjects: RetentionSubjects;

  constructor(options: RetentionReconcilerOptions) {
    this.#options = options;
    this.#subjects = new RetentionSubjects(options);
    this.#due = new ElapsedTimes(options);
  }

  observeConversation(conversation: CachedConversation): void {
    this.#observe(this.#subjects.ofConversation(conversation));
    this.#observeSandboxOf(conversation);
  }

  observeSandbox(sandbox: Sandbox): void {
    this.#observe(this.#subjects.ofSandbox(sandbox));
    this.#observeUsers(sandbox);
  }

  /** `old` is absent for a new or deleted template. */
  observeTemplate(template: SandboxTemplate, old?: SandboxTemplate): void {
    if (isDeepStrictEqual(template.spec.retention, old?.spec.retention)) return;
    const { stores } = this.#options;
    const { namespace, name } = template.metadata;
    for (const sandbox of stores.sandboxes.byIndex(byTemplate, `${namespace}/${name}`))
      this.observeSandbox(sandbox);
    // No index finds the conversations of deleted sandboxes, so all conversations are searched.
    // This happens rarely, because `retention` seldom changes.
    for (const conversation of stores.conversations.list())
      if (conversation.metadata.namespace === namespace && conversation.spec.templateName === name)
        this.observeConversation(conversation);
  }

  forgetConversation(conversation: CachedConversation): void {
    this.#due.forget(conversation.metadata.uid);
    this.#observeSandboxOf(conversation);
  }

  /** Decides again for the conversations of a deleted sandbox; another rule may apply to them. */
  forgetSandbox(sandbox: Sandbox): void {
    this.#due.forget(sandbox.metadata.uid);
    this.#observeUsers(sandbox);
  }

  async reconcile(request: Request, signal: AbortSignal): Promise<Result> {
    const cached = this.#subjects.cached(request);
    if (cached === undefined || !isLive(cached.object)) return undefined;
    const step = this.#decide(cached);
    const { uid } = cached.object.metadata;
    if (step.kind !== 'due') this.#due.forget(uid);
    switch (step.kind) {
      case 'rest':
        return undefined;
      case 'wait':
        return { requeueAfterMs: Math.min(step.forMs, maxWaitMs) };
      case 'due': {
        const { confirmMs } = this.#options.times ?? {};
        const waitMs = this.#due.deletionWaitMs(uid, step.atMs, confirmMs);
        return waitMs > 0 ? { requeueAfterMs: waitMs } : this.#act(cached, step.atMs, signal);
      }
      case 'withdraw':
      case 'announce':
        return this.#act(cached, undefined, signal);
    }
  }

  /**
   * Reads the object from the API server, because a cache may lag, decides the step again, and
   * takes it. Deletes only an object that is due since `dueAtMs`, which `ElapsedTimes` has
   * confirmed.
   */
  async #act(
    cached: RetentionSubject,
    dueAtMs: number | undefined,
    signal: AbortSignal,
  ): Promise<Result> {
    const stored = await this.#subjects.stored(cached.object, signal);
    if (stored === undefined || !isLive(stored.object)) return undefined;
    const step = this.#decide(stored);
    switch (step.kind) {
      case 'withdraw':
        await this.#store(stored.object, undefined, signal);
        break;
      case 'announce':
        await this.#announce(stored, step, signal);
        break;
      case 'due':
        if (step.atMs === dueAtMs) await this.#delete(stored, step.rule, signal);
        break;
      case 'rest':
      case 'wait':
        break;
    }
    // The event of the write causes the next reconcile. The delay is for a watch that is broken.
    return { requeueAfterMs: silentWatchMs };
  }

  #decide({ object, countdown }: RetentionSubject): RetentionStep {
    const { clock, times } = this.#options;
    return decideRetention({
      countdown,
      announced: announcedOf(object),
      nowMs: clock.now(),
      minLeadMs: times?.minLeadMs,
    });
  }

  async #announce(
    { object, conversations: inIt }: RetentionSubject,
    { announcement, atMs }: AnnounceStep,
    signal: AbortSignal,
  ): Promise<void> {
    // The Event is recorded before the write of the condition. If the response to the write is
    // lost, the stored condition still has an Event.
    for (const about of inIt.length > 0 ? inIt : [object])
      this.#options.events.record(about, {
        type: 'Normal',
        ...announcement,
        reason: 'Expiring',
        essential: true,
      });
    const condition: Condition = {
      type: ConversationCondition.expiring,
      status: 'True',
      ...announcement,
      observedGeneration: object.metadata.generation,
      // The deletion time in the message is computed from this time.
      lastTransitionTime: new Date(atMs).toISOString(),
    };
    await this.#store(object, condition, signal);
  }

  /** Writes or removes the condition Expiring; throws a conflict if the object has changed. */
  async #store(
    object: CachedConversation | Sandbox,
    condition: Condition | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const others = (object.status?.conditions ?? []).filter(
      ({ type }) => type !== ConversationCondition.expiring,
    );
    const conditions = condition === undefined ? others : [...others, condition];
    const changed = { ...object, status: { ...object.status, conditions } };
    await this.#options.client.updateStatus(resourceFor(object), changed, { signal });
  }

  async #delete(
    { object, ownSandbox }: RetentionSubject,
    rule: RetentionRule,
    signal: AbortSignal,
  ): Promise<void> {
    const { logger, metrics } = this.#options;
    const { namespace, name, uid } = object.metadata;
    // A resume changes only the sandbox: the deletion of the conversation would not notice it. The
    // sandbox is therefore deleted first, in the version that was read. For a RUNNING sandbox this
    // is unnecessary, because a message to its agent also changes the conversation.
    if (ownSandbox !== undefined && viewOfSandbox(ownSandbox).phase !== 'RUNNING')
      await this.#deleteVersion(ownSandbox, signal);
    if (!(await this.#deleteVersion(object, signal))) return;
    this.#due.forget(uid);
    const kind = isConversation(object) ? 'Conversation' : 'Sandbox';
    metrics.retentionDeletions.inc({ kind, rule });
    logger.info('deleted by retention', { kind, namespace, name, rule });
  }

  /** Deletes the object in the version that was read; false when it is already deleted. */
  async #deleteVersion(
    object: CachedConversation | Sandbox,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { namespace, name, uid, resourceVersion } = object.metadata;
    const options = { uid, resourceVersion, propagationPolicy: 'Background', signal } as const;
    try {
      await this.#options.client.delete(resourceFor(object), namespace, name, options);
      return true;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }

  #observeUsers({ metadata: { namespace, name } }: Sandbox): void {
    for (const user of this.#options.stores.conversations.byIndex(
      bySandbox,
      `${namespace}/${name}`,
    ))
      this.#observe(this.#subjects.ofConversation(user));
  }

  /** Decides again for the sandbox, which may have been kept because of the conversation. */
  #observeSandboxOf({ metadata: { namespace }, status }: CachedConversation): void {
    const name = status?.sandboxName;
    const sandbox =
      name === undefined ? undefined : this.#options.stores.sandboxes.get(namespace, name);
    if (sandbox !== undefined) this.#observe(this.#subjects.ofSandbox(sandbox));
  }

  #observe({ object, countdown }: RetentionSubject): void {
    if (countdown !== undefined || announcedOf(object) !== undefined)
      this.#options.enqueue(requestOf(object));
    else this.#due.forget(object.metadata.uid);
  }
}

/** `requested` is the source of the requests that the reconciler itself enqueues. */
export function retentionController(
  caches: Pick<WatchedCaches, 'conversations' | 'sandboxes' | 'templates'>,
  reconciler: RetentionReconciler,
  requested: EventSource,
): ControllerSpec {
  return {
    name: 'retention',
    workers: workers.retention,
    sources: [
      observe(
        caches.conversations,
        (conversation) => reconciler.observeConversation(conversation),
        (conversation) => reconciler.forgetConversation(conversation),
      ),
      observe(
        caches.sandboxes,
        (sandbox) => reconciler.observeSandbox(sandbox),
        (sandbox) => reconciler.forgetSandbox(sandbox),
      ),
      observe(caches.templates, (template, old) => reconciler.observeTemplate(template, old)),
      requested,
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
  };
}
