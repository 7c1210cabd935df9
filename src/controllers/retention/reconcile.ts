import { isDeepStrictEqual } from 'node:util';
import type { KubeClient } from '../../kube/client.ts';
import { isoTime, type Clock } from '../../kube/clock.ts';
import type { Request, Result } from '../../kube/controller.ts';
import { isNotFound } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Store } from '../../kube/store.ts';
import type { Logger } from '../../observability/logger.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { cachedConversation, type CachedConversation } from '../../resources/cached-conversation.ts';
import { findCondition, type Condition } from '../../resources/conditions.ts';
import { ConversationCondition, conversations } from '../../resources/conversation.ts';
import type { KubeObject, ResourceDefinition } from '../../resources/object.ts';
import { sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { sandboxTemplates, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import { bySandbox, byTemplate } from '../caches.ts';
import { countdownOfConversation, countdownOfSandbox, type Countdown, type RetentionRule } from './countdown.ts';
import { decideRetention, type Announcement, type RetentionStep } from './decide.ts';
import { DueWatch } from './due-watch.ts';

export interface RetentionReconcilerOptions {
  readonly client: KubeClient;
  readonly stores: {
    readonly conversations: Store<CachedConversation>;
    readonly sandboxes: Store<Sandbox>;
    readonly templates: Store<SandboxTemplate>;
  };
  readonly events: Pick<EventRecorder, 'record'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly enqueue: (request: Request) => void;
  /** For how long an object has to be due, by the monotonic clock of this process, before it is deleted. Default 120,000 ms. */
  readonly confirmMs?: number;
}

/** The wall clock may be set while a timer waits, so no timer waits for longer. */
const maxWaitMs = 3_600_000;
/** After a write that no cache has shown yet. */
const silentWatchMs = 5_000;

/** An object with what decides about it. */
interface Look {
  readonly object: CachedConversation | Sandbox;
  readonly countdown: Countdown | undefined;
  /** The conversations in a sandbox: their owners read of the sandbox's deletion there. */
  readonly conversations: readonly CachedConversation[];
}

const isConversation = (object: CachedConversation | Sandbox): object is CachedConversation => object.kind === conversations.kind;
const announcedOf = ({ status }: CachedConversation | Sandbox): Condition | undefined =>
  findCondition(status?.conditions, ConversationCondition.expiring);

/** A request names the plural of its kind too, because conversations and sandboxes share one queue. */
const requestOf = ({ kind, metadata }: CachedConversation | Sandbox): Request => ({
  namespace: metadata.namespace,
  name: `${kind === conversations.kind ? conversations.plural : sandboxes.plural}/${metadata.name}`,
});

/**
 * Deletes what `ttlSecondsAfterFinished` and the `retention` of templates let go. Each deletion is announced before, and decided anew
 * on what the API server has, with that very version as its precondition: what was used since stays.
 */
export class RetentionReconciler {
  readonly #options: RetentionReconcilerOptions;
  readonly #due: DueWatch;

  constructor(options: RetentionReconcilerOptions) {
    this.#options = options;
    const { clock, confirmMs = 120_000 } = options;
    this.#due = new DueWatch({ clock, confirmMs });
  }

  observeConversation(conversation: CachedConversation): void {
    this.#observe(this.#ofConversation(conversation));
  }

  observeSandbox(sandbox: Sandbox): void {
    this.#observe(this.#ofSandbox(sandbox));
    this.#observeUsers(sandbox);
  }

  /** `old` is absent for a template that is new, or gone. */
  observeTemplate(template: SandboxTemplate, old?: SandboxTemplate): void {
    if (isDeepStrictEqual(template.spec.retention, old?.spec.retention)) return;
    const { stores } = this.#options;
    const { namespace, name } = template.metadata;
    for (const sandbox of stores.sandboxes.byIndex(byTemplate, `${namespace}/${name}`)) this.observeSandbox(sandbox);
    // Those whose sandbox is gone are found by no index; a template's retention changes rarely.
    for (const conversation of stores.conversations.list())
      if (conversation.metadata.namespace === namespace && conversation.spec.templateName === name) this.observeConversation(conversation);
  }

  forget({ metadata: { uid } }: CachedConversation | Sandbox): void {
    this.#due.forget(uid);
  }

  /** Another rule may hold for the conversations that were in the sandbox. */
  sandboxGone(sandbox: Sandbox): void {
    this.forget(sandbox);
    this.#observeUsers(sandbox);
  }

  async reconcile(request: Request, signal: AbortSignal): Promise<Result> {
    const cached = this.#cached(request);
    if (cached === undefined || cached.object.metadata.deletionTimestamp !== undefined) return undefined;
    const step = this.#decide(cached);
    const { uid } = cached.object.metadata;
    if (step.kind !== 'due') this.#due.forget(uid);
    switch (step.kind) {
      case 'rest':
        return undefined;
      case 'wait':
        return { requeueAfterMs: Math.min(step.forMs, maxWaitMs) };
      case 'due': {
        const remainingMs = this.#due.remainingMs(uid);
        return remainingMs > 0 ? { requeueAfterMs: remainingMs } : this.#act(cached, true, signal);
      }
      case 'withdraw':
      case 'announce':
        return this.#act(cached, false, signal);
    }
  }

  /** Takes the step that the API server's own state asks for: a cache may be behind. Only what is surely due is deleted. */
  async #act(cached: Look, isSurelyDue: boolean, signal: AbortSignal): Promise<Result> {
    const stored = await this.#stored(cached.object, signal);
    if (stored === undefined || stored.object.metadata.deletionTimestamp !== undefined) return undefined;
    const step = this.#decide(stored);
    switch (step.kind) {
      case 'withdraw':
        await this.#store(stored.object, undefined, signal);
        break;
      case 'announce':
        await this.#announce(stored, step.announcement, signal);
        break;
      case 'due':
        if (isSurelyDue) await this.#delete(stored.object, step.rule, signal);
        break;
      case 'rest':
      case 'wait':
        break;
    }
    // The change brings the object here again; this is for a watch that has fallen silent.
    return { requeueAfterMs: silentWatchMs };
  }

  #decide({ object, countdown }: Look): RetentionStep {
    return decideRetention({ countdown, announced: announcedOf(object), nowMs: this.#options.clock.now() });
  }

  async #announce({ object, conversations: inIt }: Look, announcement: Announcement, signal: AbortSignal): Promise<void> {
    const { clock, events } = this.#options;
    const condition: Condition = {
      type: ConversationCondition.expiring,
      status: 'True',
      ...announcement,
      observedGeneration: object.metadata.generation,
      lastTransitionTime: isoTime(clock),
    };
    await this.#store(object, condition, signal);
    for (const about of inIt.length > 0 ? inIt : [object]) events.record(about, { type: 'Normal', ...announcement, reason: 'Expiring' });
  }

  /** Writes the condition Expiring, or takes it away, on the version of the object. */
  async #store(object: CachedConversation | Sandbox, condition: Condition | undefined, signal: AbortSignal): Promise<void> {
    const { client } = this.#options;
    const others = (object.status?.conditions ?? []).filter(({ type }) => type !== ConversationCondition.expiring);
    const conditions = condition === undefined ? others : [...others, condition];
    if (isConversation(object))
      await client.updateStatus(conversations, { ...object, status: { ...object.status, conditions } }, { signal });
    else await client.updateStatus(sandboxes, { ...object, status: { ...object.status, conditions } }, { signal });
  }

  async #delete(object: CachedConversation | Sandbox, rule: RetentionRule, signal: AbortSignal): Promise<void> {
    const { client, logger, metrics } = this.#options;
    const { namespace, name, uid, resourceVersion } = object.metadata;
    const options = { uid, resourceVersion, propagationPolicy: 'Background', signal } as const;
    try {
      if (isConversation(object)) await client.delete(conversations, namespace, name, options);
      else await client.delete(sandboxes, namespace, name, options);
    } catch (error) {
      if (isNotFound(error)) return;
      throw error;
    }
    this.#due.forget(uid);
    metrics.retentionDeletions.inc({ kind: object.kind, rule });
    logger.info('deleted by retention', { kind: object.kind, namespace, name, rule });
  }

  #observeUsers({ metadata: { namespace, name } }: Sandbox): void {
    for (const user of this.#options.stores.conversations.byIndex(bySandbox, `${namespace}/${name}`)) this.observeConversation(user);
  }

  #observe({ object, countdown }: Look): void {
    if (countdown !== undefined || announcedOf(object) !== undefined) this.#options.enqueue(requestOf(object));
    else this.#due.forget(object.metadata.uid);
  }

  #cached({ namespace, name }: Request): Look | undefined {
    const { stores } = this.#options;
    const [plural = '', own = ''] = name.split('/');
    if (plural === conversations.plural) {
      const conversation = stores.conversations.get(namespace, own);
      return conversation === undefined ? undefined : this.#ofConversation(conversation);
    }
    const sandbox = stores.sandboxes.get(namespace, own);
    return sandbox === undefined ? undefined : this.#ofSandbox(sandbox);
  }

  #ofConversation(conversation: CachedConversation): Look {
    const { stores } = this.#options;
    const { namespace } = conversation.metadata;
    const { sandboxName, sandboxUID } = conversation.status ?? {};
    const named = sandboxName === undefined ? undefined : stores.sandboxes.get(namespace, sandboxName);
    const sandbox = isIt(named, sandboxUID) ? named : undefined;
    const template = stores.templates.get(namespace, templateNameOf(conversation, sandbox));
    return { object: conversation, countdown: countdownOfConversation({ conversation, sandbox, template }), conversations: [] };
  }

  #ofSandbox(sandbox: Sandbox): Look {
    const { stores } = this.#options;
    const { namespace, name } = sandbox.metadata;
    const inIt = stores.conversations.byIndex(bySandbox, `${namespace}/${name}`);
    const template = stores.templates.get(namespace, sandbox.spec.templateName);
    return { object: sandbox, countdown: countdownOfSandbox({ sandbox, conversations: inIt, template }), conversations: inIt };
  }

  /** The same as the API server has it now; undefined when the object is gone. What can be used again is read last. */
  async #stored(object: CachedConversation | Sandbox, signal: AbortSignal): Promise<Look | undefined> {
    const { namespace, name, uid } = object.metadata;
    const read = <T extends KubeObject>(resource: ResourceDefinition<T>, of: string) => this.#read(resource, namespace, of, signal);
    if (isConversation(object)) {
      const stored = await read(conversations, name);
      if (stored?.metadata.uid !== uid) return undefined;
      const conversation = cachedConversation(stored);
      const { sandboxName, sandboxUID } = conversation.status ?? {};
      const named = sandboxName === undefined ? undefined : await read(sandboxes, sandboxName);
      const sandbox = isIt(named, sandboxUID) ? named : undefined;
      const template = await read(sandboxTemplates, templateNameOf(conversation, sandbox));
      return { object: conversation, countdown: countdownOfConversation({ conversation, sandbox, template }), conversations: [] };
    }
    const sandbox = await read(sandboxes, name);
    if (sandbox?.metadata.uid !== uid) return undefined;
    const template = await read(sandboxTemplates, sandbox.spec.templateName);
    const known = this.#options.stores.conversations.byIndex(bySandbox, `${namespace}/${name}`);
    const users = await Promise.all(known.map(({ metadata }) => read(conversations, metadata.name)));
    const inIt = users.flatMap((user) => (user === undefined ? [] : cachedConversation(user)));
    return { object: sandbox, countdown: countdownOfSandbox({ sandbox, conversations: inIt, template }), conversations: inIt };
  }

  async #read<T extends KubeObject>(resource: ResourceDefinition<T>, namespace: string, name: string, signal: AbortSignal) {
    try {
      const stored = await this.#options.client.get(resource, namespace, name, { signal });
      return resource.accepts?.(stored) === false ? undefined : stored;
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }
}

/** Whether the sandbox of that name is the one that the conversation is in. */
const isIt = (sandbox: Sandbox | undefined, uid: string | undefined): sandbox is Sandbox =>
  sandbox !== undefined && (uid === undefined || sandbox.metadata.uid === uid);

const templateNameOf = ({ spec }: CachedConversation, sandbox: Sandbox | undefined): string =>
  sandbox?.spec.templateName ?? spec.templateName;
