import { isOwnedBy, type KubeObject } from '@conversation-operator/kube/object';
import {
  isStartOver,
  startStatusOf,
  undeliveredMessages,
  type Conversation,
} from '../../src/resources/conversation.ts';
import { maxContainerLosses } from '../../src/controllers/conversation/execution/run-resume.ts';
import { conversationIdOf } from '../../src/resources/ids.ts';
import { SandboxReason, type Sandbox } from '../../src/resources/sandbox.ts';
import { shouldRun, viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import type { TimeLimits } from '../../src/quota/time-limits.ts';
import type { Cluster } from './cluster.ts';
import { wrongConditions } from './conditions-check.ts';
import { dutiesOfDisruptions } from './disruption-duties.ts';
import { isFailedStart } from './failed-start.ts';
import { conversationReferences } from './made-for.ts';
import type { SimulatedNode } from './node.ts';
import type { OperatorProcess } from './operator-process.ts';
import type { Quotas } from './quotas.ts';
import type { Safety } from './safety.ts';
import { tenant } from './tenant.ts';

export interface LivenessOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly safety: Safety;
  readonly quotas: Quotas;
  readonly operators: readonly OperatorProcess[];
  readonly limits: TimeLimits;
}

/** Sentences about everything that is not yet as it should be; empty when all is settled. */
export function unsettled({
  cluster,
  node,
  safety,
  quotas,
  operators,
  limits,
}: LivenessOptions): readonly string[] {
  return [
    ...operators.flatMap(({ behind }) => behind),
    ...(operators.some(({ machine }) => machine !== undefined && machine.name === safety.holder)
      ? []
      : ['no process leads']),
    ...(node.losing ? ['a pod of a lost node still exists'] : []),
    ...quotas.unsettled(),
    ...cluster.conversations.flatMap((conversation) =>
      ofConversation(conversation).map(
        (text) => `conversation ${conversation.metadata.name}: ${text}`,
      ),
    ),
    ...cluster.sandboxes.flatMap((sandbox) =>
      ofSandbox(sandbox).map((text) => `sandbox ${sandbox.metadata.name}: ${text}`),
    ),
    ...wrongConditions({ cluster, node, limits }),
    ...dutiesOfDisruptions(cluster).map(({ rule, subject }) => `${subject}: not yet: ${rule}`),
    ...[...cluster.pods, ...cluster.claims].flatMap((object) =>
      ofOwned(object).map((text) => `${object.kind} ${object.metadata.name}: ${text}`),
    ),
  ];

  function ofConversation(conversation: Conversation): readonly string[] {
    const { metadata, spec, status } = conversation;
    if (metadata.deletionTimestamp !== undefined) return ['is still being deleted'];
    const start = startStatusOf(conversation);
    const sandbox = cluster.sandboxes.find(
      ({ metadata: { name, uid } }) =>
        name === status?.sandboxName && uid === (status.sandboxUID ?? uid),
    );
    if (start === 'ERROR') return ofFailedStart(conversation, sandbox);
    const view = viewOfSandbox(sandbox);
    // Only the tenant delays the deletion of a sandbox by a finalizer: her conversation shows why
    // the sandbox is MISSING as it was at first.
    const isGone =
      spec.owner === tenant && status?.sandboxStatus === 'MISSING' && view.phase === 'MISSING';
    if (
      status?.sandboxName !== undefined &&
      !isGone &&
      (status.sandboxStatus !== view.phase || status.sandboxStatusReason !== view.reason)
    )
      return [
        `shows ${status.sandboxStatus ?? 'nothing'} (${status.sandboxStatusReason ?? ''}) for ${view.phase} (${view.reason})`,
      ];
    // A start waits as long as its owner keeps its sandbox paused, or there is no room for it.
    if (!isStartOver(start))
      return view.phase === 'PAUSED' || (sandbox !== undefined && quotas.waitsRightly(sandbox))
        ? []
        : [`its start is still ${start}`];
    const received = safety.firstMessagesOf(metadata.uid);
    if (spec.initialMessage !== undefined && received !== 1)
      return [`READY, and its first message was received ${received} times`];
    return view.phase === 'RUNNING' && sandbox !== undefined ? ofRun(conversation, sandbox) : [];
  }

  /** A failed start shows its cause, and holds neither a pod nor a volume that it alone used. */
  function ofFailedStart(
    { metadata, status }: Conversation,
    sandbox: Sandbox | undefined,
  ): readonly string[] {
    const { start, sandboxStatus = 'nothing', sandboxStatusReason = '' } = status ?? {};
    if (sandboxStatus !== 'ERROR' || sandboxStatusReason !== start?.errorCode)
      return [`shows ${sandboxStatus} (${sandboxStatusReason})`];
    const owners = sandbox?.metadata.ownerReferences ?? [];
    const works = ({ uid }: { readonly uid: string }) =>
      uid !== metadata.uid &&
      cluster.conversations.some(
        (other) => other.metadata.uid === uid && startStatusOf(other) !== 'ERROR',
      );
    // The operator deletes no sandbox that its owner has tied to anything else.
    const isTied =
      sandbox !== undefined &&
      conversationReferences(cluster.conversations, sandbox).length < owners.length;
    return owners.length === 0 || isTied || owners.some(works)
      ? []
      : ['its start has failed, and its sandbox is still there'];
  }

  function ofRun(conversation: Conversation, sandbox: Sandbox): readonly string[] {
    const id = conversationIdOf(conversation);
    const process = node.running.find(({ sandboxUid }) => sandboxUid === sandbox.metadata.uid);
    const stored = process?.volume.conversations.get(id);
    // A conversation in a sandbox that was deleted and made again shows that.
    if (
      stored === undefined &&
      conversation.spec.sandboxName !== undefined &&
      conversation.status?.executionStatus === 'error'
    )
      return [];
    if (stored === undefined) return ['the agent does not know it'];
    if (stored.status === 'running') return ['still runs'];
    const [undelivered] = undeliveredMessages(conversation);
    if (undelivered !== undefined) return [`its message ${undelivered.number} is undelivered`];
    if (conversation.status?.agentEpoch !== sandbox.status?.agentEpoch)
      return ['the agent was not asked since it came up'];
    const {
      executionStatus: shown = 'nothing',
      interruption,
      executionDetail,
    } = conversation.status ?? {};
    const isInterrupted =
      stored.status === 'paused' ||
      (stored.status === 'error' && stored.failure === undefined) ||
      stored.status === 'idle';
    // A change for which no process waits is written late.
    if (conversation.status?.lastActivityTime !== new Date(stored.updatedAt).toISOString())
      return ['its last activity is not stored'];
    if (interruption?.abandonedReason !== undefined) {
      if (executionDetail === undefined) return ['was abandoned without a detail'];
      const rightly = {
        Refused: stored.broken,
        LostTooOften: stored.losses + stored.disruptions > maxContainerLosses,
        Stalled: stored.stalledAt !== undefined,
      };
      if (!rightly[interruption.abandonedReason]) return ['was abandoned too soon'];
      return shown === (interruption.abandonedReason === 'Stalled' ? 'stuck' : 'error') &&
        isInterrupted
        ? []
        : [`was given up, shows ${shown} for ${stored.status}`];
    }
    const { resumeAttempts: attempts = 0, lastResumeTime, reason } = interruption ?? {};
    if (shown === 'paused' && attempts > 0 && lastResumeTime === undefined && reason !== 'User')
      return ['has a resume that is still under way'];
    if (isInterrupted && stored.wanted && !stored.mayStayPaused)
      return [`its run was interrupted (${stored.status}) and does not resume`];
    // The run was over, and no poll had seen that, when its owner paused it: a later poll can't
    // distinguish it from an interrupted run.
    if (shown === 'paused' && stored.status === 'idle' && !stored.wanted && reason === 'User')
      return [];
    return shown === stored.status || (isInterrupted && stored.mayStayPaused && shown === 'paused')
      ? []
      : [`shows ${shown} for ${stored.status}`];
  }

  function ofSandbox(sandbox: Sandbox): readonly string[] {
    if (sandbox.metadata.deletionTimestamp !== undefined) return ['is still being deleted'];
    const owned = cluster.pods.filter((pod) => isOwnedBy(pod, sandbox));
    const { phase, observedGeneration, replicas } = sandbox.status ?? {};
    if (phase !== viewOfSandbox(sandbox).phase)
      return [`its stored phase is ${phase ?? 'nothing'}`];
    if (observedGeneration !== sandbox.metadata.generation)
      return ['its latest spec was not observed'];
    if (phase === 'PAUSED' || phase === 'ERROR')
      return owned.length > 0 || replicas !== 0 ? [`${phase}, and has a pod`] : [];
    if (quotas.waitsRightly(sandbox)) return [];
    if (!shouldRun(sandbox)) return isFailedStart(cluster, sandbox) ? [] : ['is not admitted'];
    const agent = node.running.find(({ sandboxUid }) => sandboxUid === sandbox.metadata.uid);
    if (agent?.silentSince !== undefined)
      return agent.comesBack ? ['its agent does not answer yet'] : ofSilent(sandbox);
    // The operator knows nothing of conversations that a client has made in the agent itself.
    const asks = [...(agent?.volume.conversations.values() ?? [])].some(
      ({ id, status }) =>
        status === 'waiting_for_confirmation' &&
        cluster.conversations.some((conversation) => conversationIdOf(conversation) === id),
    );
    if ((limits.idleTimeout !== undefined && !asks) || limits.maxActiveTime !== undefined)
      return ['is not paused for its idleness or its age'];
    return phase === 'RUNNING' && agent?.state === 'ready' && owned.length === 1
      ? []
      : [`is ${phase}, not RUNNING`];
  }

  /** An agent without a conversation is not polled, so its silence is unknown. */
  function ofSilent({ metadata: { uid }, status }: Sandbox): readonly string[] {
    const expires = limits.idleTimeout !== undefined || limits.maxActiveTime !== undefined;
    if (expires) return ['is not paused for its idleness or its age'];
    // A container that has never answered, of a sandbox that has run: nothing ends that but its
    // kubelet, or a person.
    const waits =
      status?.lastContainerID !== undefined && status.reason === SandboxReason.waitingForAgent;
    if (status?.phase !== 'RUNNING')
      return waits || status?.reason === SandboxReason.agentSilent
        ? []
        : [`is ${status?.reason ?? 'nothing'}`];
    const isAsked = cluster.conversations.some(
      (user) => user.status?.sandboxUID === uid && startStatusOf(user) === 'READY',
    );
    return isAsked ? ['its agent does not answer, and it is RUNNING'] : [];
  }

  function ofOwned(object: KubeObject): readonly string[] {
    const orphaned = ![...cluster.sandboxes, ...cluster.warmSandboxes].some((sandbox) =>
      isOwnedBy(object, sandbox),
    );
    return orphaned || object.metadata.deletionTimestamp !== undefined ? ['should be gone'] : [];
  }
}
