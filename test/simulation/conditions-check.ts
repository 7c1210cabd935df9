import { isOwnedBy } from '@conversation-operator/kube/object';
import { findCondition, isTrue, type Condition } from '../../src/resources/conditions.ts';
import {
  ConversationCondition,
  startStatusOf,
  type Conversation,
} from '../../src/resources/conversation.ts';
import { SandboxCondition, SandboxReason, type Sandbox } from '../../src/resources/sandbox.ts';
import type { TimeLimits } from '../../src/quota/time-limits.ts';
import type { Cluster } from './cluster.ts';
import { isFailedStart } from './failed-start.ts';
import type { SimulatedNode } from './node.ts';

export interface ConditionsOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly limits: TimeLimits;
}

type Reasons = readonly string[];

/**
 * Sentences about conditions that are wrong once nothing changes any more. The truth is the wish of
 * the owner in the spec, the pods that exist, and the agents that answer on the node; the phase of
 * a sandbox and its reason have no part in it.
 */
export function wrongConditions({ cluster, node, limits }: ConditionsOptions): readonly string[] {
  return [
    ...cluster.sandboxes.flatMap(ofSandbox),
    ...cluster.conversations.flatMap(ofConversation),
  ];

  function ofSandbox(sandbox: Sandbox): readonly string[] {
    const { name, generation, deletionTimestamp } = sandbox.metadata;
    const reasons = pausingReasonsOf(sandbox);
    if (deletionTimestamp !== undefined || reasons === undefined) return [];
    const paused = findCondition(sandbox.status?.conditions, SandboxCondition.paused);
    return wrong(
      `sandbox ${name}`,
      generation,
      paused,
      SandboxCondition.paused,
      reasons.length > 0,
      reasons,
    );
  }

  function ofConversation(conversation: Conversation): readonly string[] {
    const { metadata, status } = conversation;
    if (metadata.deletionTimestamp !== undefined) return [];
    const start = startStatusOf(conversation);
    const sandbox =
      start === 'ERROR'
        ? undefined
        : cluster.sandboxes.find(({ metadata: { uid } }) => uid === status?.sandboxUID);
    const reasons = sandbox === undefined ? [] : pausingReasonsOf(sandbox);
    const answers = node.running.some(
      ({ sandboxUid, state, silentSince }) =>
        sandboxUid === sandbox?.metadata.uid && state === 'ready' && silentSince === undefined,
    );
    const subject = `conversation ${metadata.name}`;
    const find = (type: string) => findCondition(status?.conditions, type);
    return [
      ...wrong(
        subject,
        metadata.generation,
        find(ConversationCondition.ready),
        ConversationCondition.ready,
        start === 'READY' && answers,
      ),
      ...(reasons === undefined
        ? []
        : wrong(
            subject,
            metadata.generation,
            find(ConversationCondition.paused),
            ConversationCondition.paused,
            reasons.length > 0,
            reasons,
          )),
    ];
  }

  /** Reasons that a pause may have: none if not paused; undefined: unused after a failed start. */
  function pausingReasonsOf(sandbox: Sandbox): Reasons | undefined {
    const { conditions, waitingSinceTime } = sandbox.status ?? {};
    if (isTrue(conditions, SandboxCondition.failed)) return [];
    if (sandbox.spec.replicas === 0) return [SandboxReason.user];
    if (isFailedStart(cluster, sandbox)) return undefined;
    if (waitingSinceTime !== undefined || cluster.pods.some((pod) => isOwnedBy(pod, sandbox)))
      return [];
    return [
      ...[SandboxReason.quota, SandboxReason.quotaExceeded],
      ...(limits.idleTimeout === undefined ? [] : [SandboxReason.idle]),
      ...(limits.maxActiveTime === undefined ? [] : [SandboxReason.maxActiveTime]),
    ];
  }
}

function wrong(
  subject: string,
  generation: number,
  condition: Condition | undefined,
  type: string,
  expected: boolean,
  reasons?: Reasons,
): readonly string[] {
  if (condition === undefined) return [`${subject}: has no condition ${type}`];
  const { status, reason, observedGeneration } = condition;
  if (observedGeneration !== generation)
    return [`${subject}: its condition ${type} is of generation ${observedGeneration ?? 'none'}`];
  if ((status === 'True') !== expected)
    return [`${subject}: its condition ${type} is ${status} (${reason})`];
  return expected && reasons?.includes(reason) === false
    ? [`${subject}: its condition ${type} has the reason ${reason}`]
    : [];
}
