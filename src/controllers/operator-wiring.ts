import { EventRecorder } from '@conversation-operator/kube/events';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Request } from '@conversation-operator/kube/controller';
import type { AgentClient } from '../agent/agent.ts';
import { noAgentCredentials, type AgentCredentials } from '../agent/credentials.ts';
import type { SandboxKeys } from '../agent/keys.ts';
import type { MeasuredRuntime } from '../observability/metrics.ts';
import { AdmissionCache } from './admission/cache.ts';
import { admissionControllers } from './admission/controllers.ts';
import { QuotaStatusReconciler } from './admission/quota-status.ts';
import { AdmissionReads } from './admission/reads.ts';
import { AdmissionReconciler } from './admission/reconcile.ts';
import { UnresponsiveAgents } from './agent-calls/unresponsive-agents.ts';
import {
  createArchives,
  type ArchiveOptions,
  archiveController,
  archiveSweepController,
} from './archive/archives.ts';
import type { OperatorCaches } from './caches.ts';
import { conversationControllers, createConversations } from './conversation/controllers.ts';
import type { GitHosts } from './conversation/git/git-access.ts';
import type { PreparationLimits } from './conversation/start/preparation-failures.ts';
import { disruptionController, DisruptionReconciler } from './disruption/reconcile.ts';
import { Channel, requestOf, type ControllerSpec, objectShare } from './controller-spec.ts';
import { SpareClaims } from './pool/claims.ts';
import { poolController, PoolReconciler } from './pool/reconcile.ts';
import {
  retentionController,
  RetentionReconciler,
  type RetentionTimes,
} from './retention/reconcile.ts';
import type { AgentSide } from './sandbox/agent-connection.ts';
import { sandboxController } from './sandbox/controller.ts';
import type { SandboxOutward } from './sandbox/pod.ts';
import { PodCreations } from './sandbox/pod-creations.ts';
import { SandboxReconciler } from './sandbox/reconcile.ts';
import { templateController, TemplateReconciler } from './template/reconcile.ts';

export interface OperatorOptions extends MeasuredRuntime {
  readonly client: KubeClient;
  readonly keys: SandboxKeys;
  /** The caller starts the caches, and may share them with other readers. */
  readonly caches: OperatorCaches;
  readonly agent: AgentClient;
  readonly gitHosts: GitHosts;
  /** The API keys of the models that templates name. Default: none. */
  readonly agentCredentials?: AgentCredentials;
  /** The namespace of the operator's resources. Absent: all namespaces. */
  readonly namespace?: string;
  /** The address at which sandboxes reach the gateway, for webhooks and clones. Absent: neither. */
  readonly agentSide?: AgentSide;
  /** How sandboxes reach what is outside. Default: as their templates and images say. */
  readonly outward?: SandboxOutward;
  /**
   * Maximum time between two polls of an agent, in milliseconds. Default: as long as webhooks
   * allow.
   */
  readonly maxPollMs?: number;
  /** Limits of the steps of a start and of repositories, where they differ from the defaults. */
  readonly preparation?: Partial<PreparationLimits>;
  /**
   * Maximum time for which a pause waits until the agent has stopped its runs, in milliseconds.
   * Default 15,000.
   */
  readonly pauseBoundMs?: number;
  /** Where the events of agents are archived. Absent: they are not. */
  readonly archive?: ArchiveOptions;
  /** Times of retention, where they differ from the defaults. */
  readonly retention?: Partial<RetentionTimes>;
}

/** The parts of the operator, connected with each other. */
export interface OperatorWiring {
  /**
   * The controllers of admission. They start first: an event has to count in the cache of admission
   * before another controller acts on it, and the first decision waits for no work of the others.
   */
  readonly admissionControllers: readonly ControllerSpec[];
  readonly otherControllers: readonly ControllerSpec[];
  readonly reads: Pick<AdmissionReads, 'seed'>;
  readonly events: Pick<EventRecorder, 'close'>;
  /** Takes a notification of an agent about a conversation. */
  readonly notify: (request: Request) => void;
}

/** Creates the parts of the operator, each with what it states to need. */
export function wireOperator(options: OperatorOptions): OperatorWiring {
  const { caches, client, keys, clock, random, logger, metrics } = options;
  const { agent, agentSide, outward } = options;
  const stores = {
    conversations: caches.conversations.store,
    sandboxes: caches.sandboxes.store,
    templates: caches.templates.store,
    pools: caches.pools.store,
    quotas: caches.quotas.store,
    pods: caches.pods.store,
    claims: caches.claims.store,
  };
  const channels = {
    admission: new Channel(),
    lookup: new Channel(),
    quota: new Channel(),
    /** Conversations whose agent has sent a notification. */
    notified: new Channel(),
    /** Sandboxes whose agent does not answer. */
    unresponsive: new Channel(),
    retention: new Channel(),
    /** Conversations whose agent may have new events. */
    archive: new Channel(),
  };
  const events = new EventRecorder({
    client,
    clock,
    random,
    logger,
    component: 'conversation-operator',
    shareOf: objectShare,
  });
  const credentials = options.agentCredentials ?? noAgentCredentials;
  const podCreations = new PodCreations(clock);
  const unresponsiveAgents = new UnresponsiveAgents({ clock });
  const admission = new AdmissionCache({ stores, clock, metrics, channels });
  const { namespace } = options;
  const reads = new AdmissionReads({
    client,
    clock,
    logger,
    stores,
    cache: admission,
    podCreations,
    namespace,
    channels,
  });
  const spares = new SpareClaims({ client, logger, clock, metrics, stores, admission });
  const archives =
    options.archive === undefined
      ? undefined
      : createArchives({
          client,
          keys,
          clock,
          random,
          logger,
          metrics,
          archive: options.archive,
          stores,
          credentials,
          events,
          enqueue: (request, delayMs) => channels.archive.enqueue(request, delayMs),
        });
  const conversations = createConversations({
    client,
    keys,
    clock,
    random,
    logger,
    metrics,
    stores,
    events,
    agent,
    agentSide,
    credentials,
    unresponsiveAgents,
    gitHosts: options.gitHosts,
    preparation: options.preparation,
    maxPollMs: options.maxPollMs,
    onReport: (conversation, state) => archives?.reconciler.observe(conversation, state),
    onUnresponsive: (sandbox) => channels.unresponsive.enqueue(requestOf(sandbox)),
    refusalOf: (conversation) => admission.limits.refusalOf(conversation),
    claimSpare: (conversation, signal) => spares.claim(conversation, signal),
  });
  const sandboxes = new SandboxReconciler({
    client,
    keys,
    clock,
    random,
    logger,
    stores,
    events,
    podCreations,
    agent,
    agentSide,
    outward,
    unresponsiveAgents,
    pauseBoundMs: options.pauseBoundMs,
    archives: archives?.seal,
  });
  const pools = new PoolReconciler({
    client,
    clock,
    random,
    logger,
    stores,
    admission,
    reads,
    events,
  });
  const retention = new RetentionReconciler({
    client,
    clock,
    logger,
    metrics,
    stores,
    events,
    times: options.retention,
    enqueue: (request) => channels.retention.enqueue(request),
  });
  return {
    admissionControllers: admissionControllers({
      caches,
      admission: new AdmissionReconciler({
        client,
        keys,
        clock,
        logger,
        metrics,
        stores,
        podCreations,
        cache: admission,
        reads,
        events,
      }),
      cache: admission,
      reads,
      quotas: new QuotaStatusReconciler({ client, clock, stores, cache: admission }),
      requested: {
        admission: channels.admission.source,
        lookup: channels.lookup.source,
        quota: channels.quota.source,
      },
    }),
    otherControllers: [
      sandboxController({
        caches,
        reconciler: sandboxes,
        unresponsiveAgents,
        unresponsive: channels.unresponsive.source,
      }),
      ...conversationControllers({
        caches,
        reconciler: conversations,
        notified: channels.notified.source,
      }),
      templateController({
        caches,
        reconciler: new TemplateReconciler({ client, clock, stores, outward }),
      }),
      poolController({ caches, reconciler: pools, admission }),
      retentionController({ caches, reconciler: retention, requested: channels.retention.source }),
      ...(archives === undefined
        ? []
        : [
            archiveController({ caches, archives, requested: channels.archive.source }),
            archiveSweepController({ caches, archives }),
          ]),
      disruptionController({
        caches,
        reconciler: new DisruptionReconciler({ client, clock, stores }),
      }),
    ],
    reads,
    events,
    notify: (request) => {
      const delayMs = conversations.notify(request);
      if (delayMs !== undefined) channels.notified.enqueue(request, delayMs);
    },
  };
}
