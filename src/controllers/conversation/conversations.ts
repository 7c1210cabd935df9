import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { EventRecorder } from '@conversation-operator/kube/events';
import type { AgentClient, AgentConversation } from '../../agent/agent.ts';
import type { AgentCredentials } from '../../agent/credentials.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import { sealingUnder } from '../../agent/sealing.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { UnresponsiveAgents } from '../agent-calls/unresponsive-agents.ts';
import type { Stores } from '../caches.ts';
import { AgentConfigurations } from './agent-configuration.ts';
import type { GitHosts } from './git/git-access.ts';
import { OwnerSettingsReader } from './owner-settings.ts';
import { ConversationPoller } from './polling/conversation-poller.ts';
import { RecentAnswers } from './recent-answers.ts';
import { ConversationReconciler } from './reconcile.ts';
import { awaitAgent } from './start/await-agent.ts';
import { chooseSandbox, type ChooseSandboxOptions } from './start/choose-sandbox.ts';
import { createConversation } from './start/create-conversation.ts';
import { Preparation } from './start/preparation.ts';
import type { PreparationLimits } from './start/preparation-failures.ts';
import { prepareWorkspace } from './start/prepare-workspace.ts';
import { Start } from './start/start.ts';
import { StepDeadlines } from './start/step-deadlines.ts';
import { StatusCoalescer, StatusWriter } from './status-writer.ts';

export interface ConversationsOptions {
  readonly client: KubeClient;
  readonly keys: SandboxKeys;
  readonly clock: Clock;
  /** Random numbers from 0 to below 1. */
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly stores: Pick<Stores, 'conversations' | 'sandboxes' | 'templates' | 'pods' | 'claims'>;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly agent: AgentClient;
  readonly credentials: AgentCredentials;
  readonly gitHosts: GitHosts;
  /** Where sandboxes of a namespace reach the gateway. Absent: nowhere. */
  readonly agentSide?: { readonly url: string; readonly namespace: string } | undefined;
  /**
   * Limits that differ from the defaults: 10 min for a clone, 10 min for the set-up script, 10 GiB
   * for a repository.
   */
  readonly preparation?: Partial<PreparationLimits> | undefined;
  /** Maximum time between two polls in milliseconds, for agents that send no webhooks. */
  readonly maxPollMs?: number | undefined;
  readonly unresponsiveAgents: UnresponsiveAgents;
  /** Called once for a sandbox whose agent is unresponsive. */
  readonly onUnresponsive: (sandbox: Sandbox) => void;
  /** Called with each report of an agent about a conversation. */
  readonly onReport?: (conversation: CachedConversation, state: AgentConversation) => void;
  /** Absent: no limit rejects any start. */
  readonly refusalOf?: ChooseSandboxOptions['refusalOf'];
  /** Absent: there are no pools. */
  readonly claimSpare?: ChooseSandboxOptions['claimSpare'];
}

const defaultLimits: PreparationLimits = {
  cloneTimeoutSeconds: 600,
  setupTimeoutSeconds: 600,
  maxRepositoryMebibytes: 10_240,
};

/** Creates the reconciler of conversations, and the parts that it shares with the stages of a start. */
export function createConversations(options: ConversationsOptions): ConversationReconciler {
  const { client, keys, clock, random, logger, metrics, stores, events, agent } = options;
  const { gitHosts, agentSide, unresponsiveAgents, onUnresponsive } = options;
  const limits = { ...defaultLimits, ...options.preparation };
  const configurations = new AgentConfigurations({ credentials: options.credentials, stores });
  const ownerSettings = new OwnerSettingsReader({
    client,
    clock,
    logger,
    sealing: sealingUnder(keys),
  });
  const answers = new RecentAnswers({ client, clock });
  const coalescer = new StatusCoalescer({ clock });
  const deadlines = new StepDeadlines({ stores, clock, limits });
  const start = new Start({
    stages: [
      chooseSandbox({
        client,
        keys,
        clock,
        logger,
        stores,
        answers,
        configurations,
        deadlines,
        refusalOf: options.refusalOf,
        claimSpare: options.claimSpare,
      }),
      awaitAgent({ client, keys, deadlines }),
    ],
    agentStages: [
      ...prepareWorkspace({
        keys,
        clock,
        stores,
        gitHosts,
        agentSide,
        preparation: new Preparation({ agent, gitHosts, ...limits }),
        deadlines,
        unresponsiveAgents,
        ownerSettings,
      }),
      createConversation({
        client,
        keys,
        clock,
        stores,
        gitHosts,
        agentSide,
        agent,
        answers,
        configurations,
        deadlines,
        ownerSettings,
      }),
    ],
    deadlines,
    unresponsiveAgents,
    onUnresponsive,
    clock,
    logger,
  });
  const poller = new ConversationPoller({
    agent,
    stores,
    clock,
    random,
    maxPollMs: options.maxPollMs,
    onReport: options.onReport,
  });
  const writer = new StatusWriter({ client, clock, logger, metrics, coalescer, answers, events });
  return new ConversationReconciler({
    client,
    keys,
    clock,
    logger,
    stores,
    events,
    agent,
    configurations,
    ownerSettings,
    start,
    poller,
    writer,
    coalescer,
    unresponsiveAgents,
    onUnresponsive,
  });
}
