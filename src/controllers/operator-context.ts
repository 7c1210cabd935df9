import { EventRecorder } from '@conversation-operator/kube/events';
import type { AgentClient } from '../agent/agent.ts';
import { noAgentCredentials, type AgentCredentials } from '../agent/credentials.ts';
import { AdmissionCache } from './admission/cache.ts';
import { createArchives, type ArchiveOptions } from './archive/archives.ts';
import { AdmissionReads } from './admission/reads.ts';
import { UnresponsiveAgents } from './agent-calls/unresponsive-agents.ts';
import type { OperatorCaches } from './caches.ts';
import type { PreparationLimits } from './conversation/start/preparation-failures.ts';
import { ConversationReconciler } from './conversation/reconcile.ts';
import type { GitHosts } from './conversation/git/git-access.ts';
import { Channel, requestOf } from './event-source.ts';
import type { OperatorRuntime } from './operator-runtime.ts';
import { SpareClaims } from './pool/claims.ts';
import type { RetentionTimes } from './retention/reconcile.ts';
import type { AgentSide } from './sandbox/agent-connection.ts';
import type { SandboxOutward } from './sandbox/pod.ts';
import { PodCreations } from './sandbox/pod-creations.ts';
import { objectShare } from './workers.ts';

export interface OperatorOptions extends OperatorRuntime {
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

/** The parts that several controllers share. */
export type OperatorContext = ReturnType<typeof createContext>;

export function createContext(options: OperatorOptions) {
  const { caches, clock } = options;
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
    ...options,
    component: 'conversation-operator',
    shareOf: objectShare,
  });
  const podCreations = new PodCreations(clock);
  const unresponsiveAgents = new UnresponsiveAgents({ clock });
  const admission = new AdmissionCache({ ...options, stores, channels });
  const reads = new AdmissionReads({
    ...{ ...options, namespace: options.namespace },
    ...{ stores, cache: admission, podCreations, channels },
  });
  const spares = new SpareClaims({ ...options, stores, admission });
  const credentials = options.agentCredentials ?? noAgentCredentials;
  const archives =
    options.archive === undefined
      ? undefined
      : createArchives({
          ...{ ...options, archive: options.archive, stores, credentials, events },
          enqueue: (request, delayMs) => channels.archive.enqueue(request, delayMs),
        });
  const conversations = new ConversationReconciler({
    ...{ ...options, stores, events, unresponsiveAgents, credentials },
    onReport: (conversation, state) => archives?.reconciler.observe(conversation, state),
    onUnresponsive: (sandbox) => channels.unresponsive.enqueue(requestOf(sandbox)),
    refusalOf: (conversation) => admission.limits.refusalOf(conversation),
    claimSpare: (conversation, signal) => spares.claim(conversation, signal),
  });
  /** Uids of the conversations that one of the two conversation controllers works on. */
  const conversationsInWork = new Set<string>();
  return {
    ...options,
    stores,
    channels,
    events,
    podCreations,
    unresponsiveAgents,
    admission,
    reads,
    conversations,
    conversationsInWork,
    archives: archives?.seal,
    archiving: archives,
  };
}
