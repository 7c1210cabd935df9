import { EventRecorder } from '@conversation-operator/kube/events';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Request } from '@conversation-operator/kube/controller';
import type { AgentClient } from '../agent/agent.ts';
import { noAgentCredentials, type AgentCredentials } from '../agent/credentials.ts';
import type { SandboxKeys } from '../agent/keys.ts';
import type { Audit } from '../observability/audit.ts';
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
import { storesOf, type OperatorCaches } from './caches.ts';
import { conversationControllers, createConversations } from './conversation/controllers.ts';
import type { GitHosts } from './conversation/git/git-access.ts';
import type { PreparationLimits } from './conversation/start/preparation-failures.ts';
import { disruptionController, DisruptionReconciler } from './disruption/reconcile.ts';
import { Channel, requestOf, type ControllerSpec, objectShare } from './controller-spec.ts';
import { handoverController, HandoverReconciler } from './handover/reconcile.ts';
import { WarmSandboxClaims } from './pool/claims.ts';
import { poolController, PoolReconciler } from './pool/reconcile.ts';
import {
  retentionController,
  RetentionReconciler,
  type RetentionTimes,
} from './retention/reconcile.ts';
import type { AgentSide } from './sandbox/agent-connection.ts';
import { createSandboxes, sandboxController } from './sandbox/controller.ts';
import type { SandboxOutward } from './sandbox/pod.ts';
import { PodCreations } from './sandbox/pod-creations.ts';
import { templateController, TemplateReconciler } from './template/reconcile.ts';

export interface OperatorOptions extends MeasuredRuntime {
  readonly client: KubeClient;
  readonly keys: SandboxKeys;
  /** The caller starts the caches, and may share them with other readers. */
  readonly caches: OperatorCaches;
  readonly agent: AgentClient;
  readonly gitHosts: GitHosts;
  /** API keys for the model credentials that templates name. Default: none. */
  readonly agentCredentials?: AgentCredentials;
  /** The only namespace that the operator manages. Absent: all namespaces. */
  readonly namespace?: string;
  /** URL of the gateway for sandboxes (webhooks, clones). Absent: sandboxes can not reach it. */
  readonly agentSide?: AgentSide;
  /** Proxies and certificates of sandboxes. Default: those of their templates and images. */
  readonly outward?: SandboxOutward;
  /** Maximum milliseconds between two polls of an agent. Default: as in `poll-schedule.ts`. */
  readonly maxPollMs?: number;
  /** Limits for clones and set-up scripts that differ from the defaults. */
  readonly preparation?: Partial<PreparationLimits>;
  /** Maximum milliseconds that a pause waits for the end of the agent's runs. Default 15,000. */
  readonly pauseBoundMs?: number;
  /** Absent: the operator archives no events of agents. */
  readonly archive?: ArchiveOptions;
  readonly retention?: Partial<RetentionTimes>;
  readonly audit: Audit;
}

export interface OperatorWiring {
  /**
   * The controllers of admission, which start before the others: an event must reach
   * `AdmissionCache` before another controller acts on the event, and the first admissions do not
   * wait for the other controllers.
   */
  readonly admissionControllers: readonly ControllerSpec[];
  readonly otherControllers: readonly ControllerSpec[];
  readonly reads: Pick<AdmissionReads, 'seed'>;
  readonly events: Pick<EventRecorder, 'close'>;
  readonly notify: (request: Request) => void;
}

/** Creates the reconcilers and controllers of the operator with their dependencies. */
export function wireOperator(options: OperatorOptions): OperatorWiring {
  const { client, clock, random, logger, metrics, caches, archive } = options;
  const stores = storesOf(caches);
  const channels = {
    admission: new Channel(),
    lookup: new Channel(),
    quota: new Channel(),
    notified: new Channel(),
    unresponsive: new Channel(),
    retention: new Channel(),
    archive: new Channel(),
  };
  const component = 'conversation-operator';
  const events = new EventRecorder({
    client,
    clock,
    random,
    logger,
    component,
    shareOf: objectShare,
  });
  const credentials = options.agentCredentials ?? noAgentCredentials;
  const { namespace, keys, agent, gitHosts, agentSide, outward } = options;
  const { maxPollMs, preparation, pauseBoundMs } = options;
  const podCreations = new PodCreations(clock);
  const unresponsiveAgents = new UnresponsiveAgents({ clock });
  const cache = new AdmissionCache({ clock, metrics, stores, channels });
  const reads = new AdmissionReads({
    client,
    clock,
    logger,
    namespace,
    stores,
    cache,
    podCreations,
    channels,
  });
  const warmSandboxes = new WarmSandboxClaims({
    client,
    clock,
    logger,
    metrics,
    stores,
    admission: cache,
  });
  const archives =
    archive === undefined
      ? undefined
      : createArchives({
          client,
          clock,
          random,
          logger,
          metrics,
          events,
          stores,
          keys,
          credentials,
          archive,
          enqueue: (request, delayMs) => channels.archive.enqueue(request, delayMs),
        });
  const conversations = createConversations({
    client,
    clock,
    random,
    logger,
    metrics,
    events,
    stores,
    keys,
    agent,
    credentials,
    gitHosts,
    agentSide,
    preparation,
    maxPollMs,
    unresponsiveAgents,
    onReport: (conversation, state) => archives?.reconciler.observe(conversation, state),
    onUnresponsive: (sandbox) => channels.unresponsive.enqueue(requestOf(sandbox)),
    refusalOf: (conversation) => cache.limits.refusalOf(conversation),
    claimWarmSandbox: (conversation, signal) => warmSandboxes.claim(conversation, signal),
  });
  const sandboxes = createSandboxes({
    client,
    clock,
    random,
    logger,
    events,
    stores,
    keys,
    agent,
    pauseBoundMs,
    agentSide,
    outward,
    podCreations,
    unresponsiveAgents,
    archives: archives?.seal,
  });
  const retention = new RetentionReconciler({
    client,
    clock,
    logger,
    metrics,
    events,
    stores,
    times: options.retention,
    enqueue: (request) => channels.retention.enqueue(request),
  });
  return {
    admissionControllers: admissionControllers({
      caches,
      cache,
      reads,
      admission: new AdmissionReconciler({
        client,
        clock,
        logger,
        metrics,
        events,
        stores,
        keys,
        cache,
        reads,
        podCreations,
      }),
      quotas: new QuotaStatusReconciler({ client, clock, stores, cache }),
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
      templateController(caches, new TemplateReconciler({ client, clock, stores, outward })),
      poolController(
        caches,
        new PoolReconciler({
          client,
          clock,
          random,
          logger,
          events,
          stores,
          admission: cache,
          reads,
        }),
        cache,
      ),
      retentionController(caches, retention, channels.retention.source),
      ...(archives === undefined
        ? []
        : [
            archiveController({ caches, archives, requested: channels.archive.source }),
            archiveSweepController({ caches, archives }),
          ]),
      handoverController(
        caches,
        new HandoverReconciler({
          client,
          clock,
          logger,
          audit: options.audit,
          stores,
          noRoomFor: (of, owner, growth) => cache.limits.noRoomFor(of, owner, growth),
        }),
      ),
      disruptionController(caches, new DisruptionReconciler({ client, clock, stores })),
    ],
    reads,
    events,
    notify: (request) => {
      const delayMs = conversations.notify(request);
      if (delayMs !== undefined) channels.notified.enqueue(request, delayMs);
    },
  };
}
