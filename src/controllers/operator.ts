import type { AgentClient } from '../agent/agent.ts';
import { noAgentCredentials, type AgentCredentials } from '../agent/credentials.ts';
import type { AgentHint } from '../agent/hints.ts';
import type { SandboxKeys } from '../agent/keys.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/kube/clock';
import { Controller, type ControllerOptions, type Request, type Result } from '@conversation-operator/kube/controller';
import { EventRecorder } from '@conversation-operator/kube/events';
import type { Handler } from '@conversation-operator/kube/reflector';
import type { Logger } from '@conversation-operator/kube/logger';
import type { Metrics } from '../observability/metrics.ts';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import { isStartOver, startStatusOf } from '../resources/conversation.ts';
import type { KubeObject } from '@conversation-operator/kube/object';
import { sandboxLabel, type Sandbox } from '../resources/sandbox.ts';
import { AgentHints } from './agent-hints.ts';
import { AgentSilence } from './agent-silence.ts';
import { QuotaStatusReconciler } from './admission/quota-status.ts';
import { AdmissionReconciler } from './admission/reconcile.ts';
import { bySandbox, byTemplate, reflectorsOf, type Caches } from './caches.ts';
import type { PreparationLimits } from './conversation/pipeline.ts';
import type { GitHosts } from './conversation/repository.ts';
import { ConversationReconciler } from './conversation/reconcile.ts';
import { OneAtATime } from './one-at-a-time.ts';
import type { AgentSide } from './sandbox/agent-webhook.ts';
import { countPhases } from './sandbox/phase-count.ts';
import { RetentionReconciler, type RetentionTimes } from './retention/reconcile.ts';
import { PodCreations } from './sandbox/pod-creations.ts';
import { SandboxReconciler } from './sandbox/reconcile.ts';
import { TemplateReconciler } from './template/reconcile.ts';
import { maxPerOwner, objectShare, ownerShare, workers } from './workers.ts';

export interface OperatorOptions {
  readonly client: KubeClient;
  /** Started by whoever made them; others may read them too. */
  readonly caches: Caches;
  readonly agent: AgentClient;
  readonly keys: SandboxKeys;
  readonly gitHosts: GitHosts;
  /** The API keys of models that templates name. Default: there are none. */
  readonly agentCredentials?: AgentCredentials;
  /** Where it works; absent: in all namespaces. */
  readonly namespace?: string;
  /** Where sandboxes reach the gateway: agents send webhooks there, and private repositories are cloned through it; absent: they don't. */
  readonly agentSide?: AgentSide;
  /** However little happens, agents are asked again after so long, in milliseconds; by default as seldom as webhooks allow. */
  readonly mostPollMs?: number;
  /** How long the steps of a start may take, and a repository may be: what differs from the defaults. */
  readonly preparation?: Partial<PreparationLimits>;
  /** How long a pause waits for an agent to stop its runs, in milliseconds. Default 15,000. */
  readonly pauseBoundMs?: number;
  /** What differs from the defaults of retention. */
  readonly retention?: Partial<RetentionTimes>;
  readonly clock: Clock;
  /** Uniform in 0..1. */
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** Delay between reads that fail; no decision waits for them. */
const lookupBackoff = { baseMs: 500, capMs: 10_000, jitter: 0.1 };
/** What a quota says is written so long after a change, for all that come meanwhile. */
const quotaStatusDelayMs = 500;
/** The same for a change of a few bytes, as each status of an agent is one. */
const storedBytesDelayMs = 30_000;

interface Reconciler {
  reconcile(request: Request, signal: AbortSignal): Promise<Result>;
  /** See `ControllerOptions`. */
  refresh?(request: Request, signal: AbortSignal): Promise<void>;
}

const requestOf = (object: KubeObject): Request => ({ namespace: object.metadata.namespace ?? '', name: object.metadata.name });

/** Hands every change on, an update only when it says so. */
const onChange = <T extends KubeObject>(
  enqueue: (object: T) => void,
  matters: (object: T, old: T) => boolean = () => true,
): Handler<T> => ({
  added: enqueue,
  updated: (object, old) => {
    if (matters(object, old)) enqueue(object);
  },
  deleted: enqueue,
});

/**
 * After its start a conversation's status is written by us alone, and what its agent does is polled. What the status says of its
 * sandbox is looked at again all the same: it may have been written from a cache that was behind, and compared with another.
 */
const conversationMatters = (conversation: CachedConversation, old: CachedConversation): boolean =>
  !isStartOver(startStatusOf(conversation)) ||
  startStatusOf(conversation) !== startStatusOf(old) ||
  conversation.metadata.generation !== old.metadata.generation ||
  conversation.metadata.deletionTimestamp !== old.metadata.deletionTimestamp ||
  conversation.metadata.uid !== old.metadata.uid ||
  conversation.status?.sandboxStatus !== old.status?.sandboxStatus ||
  conversation.status?.sandboxStatusReason !== old.status?.sandboxStatusReason ||
  conversation.status?.executionStatus !== old.status?.executionStatus;

/** Every controller of the product, and which change wakes which of them. */
export class Operator {
  readonly #options: OperatorOptions;
  readonly #events: EventRecorder;
  readonly #controllers: readonly Controller[];
  readonly #admission: AdmissionReconciler;
  readonly #removers: (() => void)[] = [];
  readonly #wire: () => void;
  readonly #hints: AgentHints;

  constructor(options: OperatorOptions) {
    this.#options = options;
    const { client, caches, clock, random, logger, agent, keys, gitHosts, metrics } = options;
    this.#events = new EventRecorder({ client, component: 'conversation-operator', clock, random, logger, shareOf: objectShare });
    const events = this.#events;
    const stores = {
      conversations: caches.conversations.store,
      sandboxes: caches.sandboxes.store,
      templates: caches.templates.store,
      quotas: caches.quotas.store,
      pods: caches.pods.store,
      claims: caches.claims.store,
    };
    const controller = (
      name: keyof typeof workers,
      reconciler: Reconciler,
      more: Pick<ControllerOptions, 'shareOf' | 'maxPerShare' | 'backoff'> = {},
    ) =>
      new Controller({
        ...more,
        name,
        reconcile: (request, signal) => reconciler.reconcile(request, signal),
        refresh: reconciler.refresh?.bind(reconciler),
        workers: workers[name],
        clock,
        random,
        logger: logger.child({ controller: name }),
        metrics,
      });
    const silence = new AgentSilence({ clock });
    const onSilent = (silent: Sandbox) => sandbox.enqueue(requestOf(silent));
    const conversations = new ConversationReconciler({
      ...{ client, stores, agent, keys, gitHosts, events, silence, onSilent, clock, random, logger, metrics },
      credentials: options.agentCredentials ?? noAgentCredentials,
      ...{ agentSide: options.agentSide, preparation: options.preparation, mostPollMs: options.mostPollMs },
      refusalOf: (conversation) => slots.limits.refusalOf(conversation),
    });
    // Starts that take long must not keep the status of others waiting. Each conversation is in the hands of one of both.
    const isStarted = ({ namespace, name }: Request) => {
      const known = stores.conversations.get(namespace, name);
      return known !== undefined && isStartOver(startStatusOf(known));
    };
    const ofConversation = (request: Request): Controller => (isStarted(request) ? status : start);
    const oneAtATime = new OneAtATime();
    const reconcileIn = (own: () => Controller) => ({
      reconcile: (request: Request, signal: AbortSignal): Promise<Result> => {
        const owner = ofConversation(request);
        const again = () => ofConversation(request).enqueue(request);
        if (owner !== own()) {
          owner.enqueue(request);
          return Promise.resolve(undefined);
        }
        // One that was made again under the name of another does not wait for what is left of that one.
        const uid = stores.conversations.get(request.namespace, request.name)?.metadata.uid;
        const work = () => conversations.reconcile(request, signal);
        return uid === undefined ? work() : oneAtATime.run(uid, work, again);
      },
      refresh: (request: Request, signal: AbortSignal) => conversations.refresh(request, signal),
    });
    const ofOwner = ({ namespace, name }: Request) => ownerShare(stores.conversations.get(namespace, name));
    const start: Controller = controller(
      'conversation',
      reconcileIn(() => start),
      { shareOf: ofOwner, maxPerShare: maxPerOwner('conversation') },
    );
    const status: Controller = controller(
      'status',
      reconcileIn(() => status),
      { shareOf: ofOwner, maxPerShare: maxPerOwner('status') },
    );
    const conversation = { enqueue: (request: Request) => ofConversation(request).enqueue(request) };
    this.#hints = new AgentHints({
      ...{ stores, clock },
      onHint: (request) => {
        const waitMs = conversations.hint(request);
        if (waitMs !== undefined) status.enqueueAfter(request, waitMs);
      },
    });
    const podCreations = new PodCreations(clock);
    const pauseBound = options.pauseBoundMs === undefined ? {} : { pauseBoundMs: options.pauseBoundMs };
    const sandbox: Controller = controller(
      'sandbox',
      new SandboxReconciler({
        ...{ client, stores, agent, keys, events, podCreations, silence, clock, random, logger, agentSide: options.agentSide },
        ...pauseBound,
      }),
      {
        shareOf: ({ namespace, name }) => ownerShare(stores.sandboxes.get(namespace, name)),
        maxPerShare: maxPerOwner('sandbox'),
      },
    );
    const slots = new AdmissionReconciler({
      ...{ client, stores, podCreations, events, clock, logger, metrics, namespace: options.namespace },
      enqueue: (request) => admission.enqueue(request),
      enqueueRead: (request) => lookup.enqueue(request),
      enqueueQuota: (request, isSmall) => quota.enqueueAfter(request, isSmall === true ? storedBytesDelayMs : quotaStatusDelayMs),
    });
    this.#admission = slots;
    const admission: Controller = controller('admission', slots);
    const lookUp = (request: Request, signal: AbortSignal) => slots.read(request, signal);
    const lookup: Controller = controller('lookup', { reconcile: lookUp }, { backoff: lookupBackoff });
    const quota: Controller = controller(
      'quota',
      new QuotaStatusReconciler({ client, stores, clock, queue: (namespace) => slots.queue(namespace), limits: slots.limits }),
    );
    const template = controller('template', new TemplateReconciler({ client, stores, clock }));
    const expiry = new RetentionReconciler({
      ...{ client, stores, events, clock, logger, metrics, times: options.retention },
      enqueue: (request) => retention.enqueue(request),
    });
    const retention: Controller = controller('retention', expiry);
    this.#controllers = [start, status, sandbox, admission, lookup, quota, template, retention];

    const owningSandbox = (object: KubeObject) => {
      const name = object.metadata.labels?.[sandboxLabel];
      if (name !== undefined) sandbox.enqueue({ namespace: object.metadata.namespace ?? '', name });
    };
    const sandboxChanged = (changed: Sandbox) => {
      const request = requestOf(changed);
      sandbox.enqueue(request);
      for (const user of stores.conversations.byIndex(bySandbox, `${request.namespace}/${request.name}`))
        conversation.enqueue(requestOf(user));
    };
    const admit = (changed: Sandbox) => slots.observe(changed);
    this.#wire = () => {
      this.#removers.push(
        // First: nothing that the others do on a change may come before it is counted.
        caches.quotas.addHandler({
          added: (changed) => slots.observeQuota(changed),
          updated: (changed) => slots.observeQuota(changed),
          deleted: (gone) => slots.forgetQuota(gone),
        }),
        // A status that was refused because the cache was behind is written as soon as it is not.
        caches.quotas.addHandler(onChange((changed) => quota.enqueueAfter(requestOf(changed), quotaStatusDelayMs))),
        caches.sandboxes.addHandler({ added: admit, updated: admit, deleted: (gone) => slots.forget(gone) }),
        caches.conversations.addHandler({
          added: (changed) => slots.observeConversation(changed),
          updated: (changed) => slots.observeConversation(changed),
          deleted: (gone) => slots.forgetConversation(gone),
        }),
        caches.pods.addHandler({ deleted: (gone) => slots.podGone(gone) }),
        caches.conversations.addHandler(onChange((object) => conversation.enqueue(requestOf(object)), conversationMatters)),
        caches.sandboxes.addHandler(onChange(sandboxChanged)),
        caches.pods.addHandler(onChange(owningSandbox)),
        caches.claims.addHandler(onChange(owningSandbox)),
        caches.templates.addHandler(
          onChange((object) => {
            template.enqueue(requestOf(object));
            slots.observeTemplate(object);
            const key = `${object.metadata.namespace}/${object.metadata.name}`;
            for (const made of stores.sandboxes.byIndex(byTemplate, key)) sandbox.enqueue(requestOf(made));
          }),
        ),
        caches.conversations.addHandler({
          added: (made) => expiry.observeConversation(made),
          updated: (changed) => expiry.observeConversation(changed),
          deleted: (gone) => expiry.conversationGone(gone),
        }),
        caches.sandboxes.addHandler({
          added: (made) => expiry.observeSandbox(made),
          updated: (changed) => expiry.observeSandbox(changed),
          deleted: (gone) => expiry.sandboxGone(gone),
        }),
        caches.templates.addHandler({
          added: (made) => expiry.observeTemplate(made),
          updated: (changed, old) => expiry.observeTemplate(changed, old),
          deleted: (gone) => expiry.observeTemplate(gone),
        }),
        countPhases(caches.sandboxes, metrics),
      );
    };
  }

  /** Starts to work once every cache has been filled: deciding on half a picture would create what is there already. */
  async start(signal?: AbortSignal): Promise<void> {
    await Promise.all(reflectorsOf(this.#options.caches).map((reflector) => reflector.synced(signal)));
    await this.#admission.seed(signal);
    this.#wire();
    for (const controller of this.#controllers) controller.start();
  }

  /**
   * An agent has something to tell: of one of its conversations, or of any. It is only asked sooner than it would be, and only so
   * often, so a hint may be lost, late, repeated or wrong.
   */
  hint(hint: AgentHint): void {
    this.#hints.take(hint);
  }

  /** Lets running reconciles end, for `graceMs` at most, and takes no new ones. */
  async stop(graceMs = 5_000): Promise<void> {
    for (const remove of this.#removers.splice(0)) remove();
    await Promise.all(this.#controllers.map((controller) => controller.stop(graceMs)));
    await this.#events.close();
  }
}
