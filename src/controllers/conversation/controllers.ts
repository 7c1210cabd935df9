import {
  type RecordingNeeds,
  requestOf,
  watch,
  type ControllerSpec,
  type EventSource,
  maxPerOwner,
  ownerShare,
  workers,
} from '../controller-spec.ts';
import type { Request, Result } from '@conversation-operator/kube/controller';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { isStartOver, startStatusOf } from '../../resources/conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { CachedUsageRecord } from '../../resources/usage-record.ts';
import {
  byExhaustedBudget,
  byHeldStart,
  bySandbox,
  type WatchedCaches,
  type Stores,
} from '../caches.ts';
import { ConversationReconciler } from './reconcile.ts';
import { isUnusedBy } from './start/sandbox-release.ts';
import type { AgentClient, AgentConversation } from '../../agent/agent.ts';
import type { AgentCredentials } from '../../agent/credentials.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import { sealingUnder } from '../../agent/sealing.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { UnresponsiveAgents } from '../agent-calls/unresponsive-agents.ts';
import { AgentConfigurations } from './agent-configuration.ts';
import type { GitHosts } from './git/git-access.ts';
import { usageSource } from './model-usage.ts';
import { NewOwner } from './new-owner.ts';
import { OwnerSettingsReader } from './owner-settings.ts';
import { ConversationPoller } from './polling/conversation-poller.ts';
import { RecentAnswers } from './recent-answers.ts';
import type { ChooseSandboxOptions } from './start/choose-sandbox.ts';
import { Preparation } from './start/preparation.ts';
import type { PreparationLimits } from './start/preparation-failures.ts';
import { Start } from './start/start.ts';
import { StepDeadlines } from './start/step-deadlines.ts';
import { Approvals } from './approvals/approvals.ts';
import { BudgetQuestions } from './budget/budget-questions.ts';
import { StartHolds } from './budget/start-hold.ts';
import { RunControl } from './execution/run-control.ts';
import { Following } from './follow.ts';
import { Delivery } from './messages/delivery.ts';
import { StatusWriter } from './status-writer.ts';

export interface ConversationsOptions extends RecordingNeeds {
  readonly keys: SandboxKeys;
  /** Random numbers from 0 to below 1. */
  readonly random: () => number;
  readonly metrics: Metrics;
  readonly stores: Pick<
    Stores,
    'conversations' | 'sandboxes' | 'templates' | 'pods' | 'claims' | 'quotas' | 'usageRecords'
  >;
  readonly agent: AgentClient;
  readonly credentials: AgentCredentials;
  readonly gitHosts: GitHosts;
  /** URL of the gateway for sandboxes of `namespace`. Absent: they can not reach the gateway. */
  readonly agentSide?: { readonly url: string; readonly namespace: string } | undefined;
  /** Default: 10 min for a clone and for the set-up script, 10 GiB for a repository. */
  readonly preparation?: Partial<PreparationLimits> | undefined;
  /** Maximum time between two polls in milliseconds, for agents that send no webhooks. */
  readonly maxPollMs?: number | undefined;
  readonly unresponsiveAgents: UnresponsiveAgents;
  /** Called once for a sandbox whose agent has not answered any call for a minute. */
  readonly onUnresponsive: (sandbox: Sandbox) => void;
  readonly onReport?: (conversation: CachedConversation, state: AgentConversation) => void;
  /** Absent: no limit rejects any start. */
  readonly refusalOf?: ChooseSandboxOptions['refusalOf'];
  /** Absent: there are no pools. */
  readonly claimWarmSandbox?: ChooseSandboxOptions['claimWarmSandbox'];
}

const defaultLimits: PreparationLimits = {
  cloneTimeoutSeconds: 600,
  setupTimeoutSeconds: 600,
  maxRepositoryMebibytes: 10_240,
};

export function createConversations(options: ConversationsOptions): ConversationReconciler {
  const {
    client,
    clock,
    logger,
    metrics,
    events,
    stores,
    keys,
    agent,
    credentials,
    gitHosts,
    onUnresponsive,
    refusalOf,
    claimWarmSandbox,
    unresponsiveAgents,
    agentSide,
  } = options;
  const limits = { ...defaultLimits, ...options.preparation };
  const ownerSettings = new OwnerSettingsReader({
    client,
    clock,
    logger,
    sealing: sealingUnder(keys),
  });
  const configurations = new AgentConfigurations({
    stores,
    credentials,
    keys,
    agentSide,
    ownerSettings,
  });
  const answers = new RecentAnswers(options);
  const holds = new StartHolds({ stores, clock });
  const start = new Start({
    client,
    clock,
    logger,
    stores,
    keys,
    agent,
    onUnresponsive,
    refusalOf,
    holdOf: (conversation) => holds.of(conversation),
    claimWarmSandbox,
    unresponsiveAgents,
    gitHosts,
    agentSide,
    ownerSettings,
    configurations,
    answers,
    deadlines: new StepDeadlines({ clock, stores, limits }),
    preparation: new Preparation({ agent, gitHosts, ...limits }),
  });
  const poller = new ConversationPoller(options);
  const writer = new StatusWriter({ client, clock, logger, metrics, events, answers });
  const approvals = new Approvals(options);
  const runs = new RunControl({ client, clock, logger, stores, agent, configurations });
  const delivery = new Delivery(options);
  const newOwner = new NewOwner({
    agent,
    agentSide,
    configurations,
    gitHosts,
    keys,
    logger,
    ownerSettings,
    stores,
  });
  const following = new Following({
    clock,
    logger,
    configurations,
    approvals,
    budgets: new BudgetQuestions({ client, clock, logger, stores }),
    poller,
    newOwner,
    runs,
    delivery,
    writer,
  });
  return new ConversationReconciler({ client, clock, stores, start, following, poller, writer });
}

/** Delay before the reconcile of a conversation that the other controller still reconciles. */
const busyDelayMs = 100;

/**
 * Whether an update of a conversation causes a reconcile. After the start, most changes of the
 * status do not: only the operator writes the status, and polls have their own schedule. A change
 * of `sandboxStatus` does, because the operator may have copied it from a stale cache.
 */
const isRelevant = (conversation: CachedConversation, old: CachedConversation): boolean =>
  !isStartOver(startStatusOf(conversation)) ||
  startStatusOf(conversation) !== startStatusOf(old) ||
  conversation.metadata.generation !== old.metadata.generation ||
  conversation.metadata.deletionTimestamp !== old.metadata.deletionTimestamp ||
  conversation.metadata.uid !== old.metadata.uid ||
  conversation.status?.sandboxStatus !== old.status?.sandboxStatus ||
  conversation.status?.sandboxStatusReason !== old.status?.sandboxStatusReason ||
  conversation.status?.executionStatus !== old.status?.executionStatus ||
  conversation.status?.budgetExhaustion?.time !== old.status?.budgetExhaustion?.time;

export interface ConversationControllersOptions {
  readonly caches: Pick<WatchedCaches, 'conversations' | 'sandboxes' | 'quotas' | 'usageRecords'>;
  readonly reconciler: Pick<ConversationReconciler, 'reconcile' | 'refresh'>;
  readonly notified: EventSource;
}

const raisesIn = ({ status }: CachedUsageRecord): number =>
  (status?.accounts ?? []).reduce((sum, { raises = [] }) => sum + raises.length, 0);

/**
 * Returns one of two controllers with the same reconcile function. `conversation` handles a
 * conversation until its start is over, and `status` afterwards, so that long starts delay no
 * updates of a status. Each controller drops requests for conversations of the other.
 */
function conversationController(
  name: 'conversation' | 'status',
  { caches, reconciler, notified }: ConversationControllersOptions,
  inWork: Set<string>,
): ControllerSpec {
  const conversations = caches.conversations.store;
  const cachedOf = ({ namespace, name: own }: Request) => conversations.get(namespace, own);
  const isMine = (request: Request): boolean => {
    const cached = cachedOf(request);
    return (cached !== undefined && isStartOver(startStatusOf(cached))) === (name === 'status');
  };
  const usersOf = (sandbox: Sandbox): readonly Request[] => {
    const { namespace, name: own, ownerReferences = [] } = sandbox.metadata;
    const users = conversations.byIndex(bySandbox, `${namespace}/${own}`);
    // The reconcile of a conversation also deletes unused sandboxes that were made for it.
    const referenced = ownerReferences
      .flatMap((owner) => conversations.get(namespace, owner.name) ?? [])
      .filter((conversation) => isUnusedBy(conversation, sandbox));
    return [...users, ...referenced].map(requestOf).filter(isMine);
  };
  /** The conversations that an exhausted budget holds up, which may go on after its change. */
  const heldUpBy = (
    { metadata: { namespace, name: own } }: ConversationQuota | CachedUsageRecord,
    field: 'quota' | 'record',
  ): readonly Request[] =>
    (name === 'status'
      ? conversations.byIndex(byExhaustedBudget, `${namespace}/${field}/${own}`)
      : conversations.byIndex(byHeldStart, namespace)
    )
      .map(requestOf)
      .filter(isMine);
  return {
    name,
    workers: workers[name],
    shareOf: (request) => ownerShare(cachedOf(request)),
    maxPerShare: maxPerOwner(name),
    sources: [
      watch(caches.conversations, (conversation) => [requestOf(conversation)].filter(isMine), {
        isRelevant,
      }),
      watch(caches.sandboxes, usersOf),
      usageSource(caches, isMine),
      watch(caches.quotas, (quota) => heldUpBy(quota, 'quota'), {
        isRelevant: ({ metadata }, old) => metadata.generation !== old.metadata.generation,
      }),
      watch(caches.usageRecords, (record) => heldUpBy(record, 'record'), {
        isRelevant: (record, old) => raisesIn(record) !== raisesIn(old),
      }),
      ...(name === 'status' ? [notified] : []),
    ],
    refresh: (request, signal) => reconciler.refresh(request, signal),
    reconcile: async (request, signal): Promise<Result> => {
      if (!isMine(request)) return undefined;
      const uid = cachedOf(request)?.metadata.uid;
      if (uid === undefined) return reconciler.reconcile(request, signal);
      // The other controller may still reconcile the conversation, whose start has just ended.
      if (inWork.has(uid)) return { requeueAfterMs: busyDelayMs };
      inWork.add(uid);
      try {
        return await reconciler.reconcile(request, signal);
      } finally {
        inWork.delete(uid);
      }
    },
  };
}

/** The controller of conversations that are starting, and that of conversations after the start. */
export function conversationControllers(
  options: ConversationControllersOptions,
): readonly [start: ControllerSpec, status: ControllerSpec] {
  const inWork = new Set<string>();
  return [
    conversationController('conversation', options, inWork),
    conversationController('status', options, inWork),
  ];
}
