import { isOwnedBy } from '@conversation-operator/kube/object';
import { hasAnswerToGive } from '../../src/resources/approval.ts';
import {
  isStartOver,
  startStatusOf,
  undeliveredMessages,
  type Conversation,
} from '../../src/resources/conversation.ts';
import type { Cluster } from './cluster.ts';
import type { Duty } from './duties.ts';

/** Maximum time to do something that only needs the API server. */
const promptMs = 3_000;
/** Time without work after which a pod lets its node go. */
const quietMs = 60_000;

const works = (conversation: Conversation): boolean =>
  !isStartOver(startStatusOf(conversation)) ||
  ['running', 'waiting_for_confirmation'].includes(conversation.status?.executionStatus ?? '');

/** Whether the conversation rests: no message, answer or interrupted run is left. */
const rests = (conversation: Conversation): boolean => {
  const { executionStatus, interruption } = conversation.status ?? {};
  const isInterrupted =
    executionStatus === 'paused' && interruption !== undefined && interruption.reason !== 'User';
  const hasUndelivered =
    startStatusOf(conversation) === 'READY' &&
    executionStatus !== 'error' &&
    (undeliveredMessages(conversation).length > 0 || hasAnswerToGive(conversation));
  return !works(conversation) && !isInterrupted && !hasUndelivered;
};

/** Duties for the annotations by which autoscalers learn whether they may empty a node. */
export function dutiesOfDisruptions(cluster: Cluster): readonly Duty[] {
  return cluster.sandboxes.flatMap((sandbox): readonly Duty[] => {
    const { name, uid } = sandbox.metadata;
    const pod = cluster.pods.find(({ metadata }) => metadata.name === name);
    if (
      pod === undefined ||
      !isOwnedBy(pod, sandbox) ||
      pod.metadata.deletionTimestamp !== undefined ||
      pod.status?.phase === 'Failed'
    )
      return [];
    const safeToEvict =
      pod.metadata.annotations?.['cluster-autoscaler.kubernetes.io/safe-to-evict'];
    const doNotDisrupt = pod.metadata.annotations?.['karpenter.sh/do-not-disrupt'];
    const inside = cluster.conversations.filter(({ status }) => status?.sandboxUID === uid);
    // Work may begin and end between two checks; what it leaves begins another wait.
    const traces = inside.map(
      ({ status }) => `${status?.messages?.lastDelivered ?? ''} ${status?.lastActivityTime ?? ''}`,
    );
    const subject = `pod ${name} ${pod.metadata.uid} after ${traces.join(', ')}`;
    if (inside.some(works))
      return safeToEvict === 'false' && doNotDisrupt === 'true'
        ? []
        : [{ rule: 'a pod keeps its node while its agent works', subject, boundMs: promptMs }];
    return !inside.every(rests) || (safeToEvict === 'true' && doNotDisrupt === undefined)
      ? []
      : [{ rule: 'a pod lets its node go in time', subject, boundMs: quietMs + promptMs }];
  });
}
