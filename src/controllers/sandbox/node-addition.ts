import type { KubeEvent } from '@conversation-operator/kube/core';

/**
 * The last statement of an autoscaler on a new node for a pod. An autoscaler that has said nothing
 * counts as `denied`. `unknown`: the Events could not be read.
 */
export type NodeAddition = 'announced' | 'denied' | 'unknown';

/**
 * Maximum age of an announcement. The cluster autoscaler (`--max-node-provision-time`) and
 * Karpenter (`registrationTimeout`) give up a node that has not joined after 15 minutes. The
 * cluster autoscaler announces a node once; Karpenter repeats that every two minutes at most.
 */
export const maxAnnouncementAgeMs = 15 * 60_000;
/**
 * Time after the start deadline in which Events that can't be read keep a start from its end. A
 * passing failure of the API server is shorter.
 */
export const unknownGraceMs = 60_000;
/**
 * Delay before the Events about a pod without a node are read first: both autoscalers search for
 * such pods every ten seconds. The pod of a node that joins has its whole deadline only once the
 * announcement is known.
 */
export const firstCheckMs = 10_000;
/** Delay before the Events about a pod are read again, by what they have said. */
export const nextCheckMs: Readonly<Record<NodeAddition, number>> = {
  announced: 60_000,
  denied: 30_000,
  unknown: 5_000,
};

/** Reasons of the cluster autoscaler and of Karpenter. */
const announcing: ReadonlySet<string> = new Set(['TriggeredScaleUp', 'Nominated']);

/**
 * Whether an autoscaler adds no node for the pod. Karpenter has the scheduler's reason, and its own
 * text.
 */
const isDenial = ({ reason, message = '' }: KubeEvent): boolean =>
  reason === 'NotTriggerScaleUp' ||
  (reason === 'FailedScheduling' && message.startsWith('Failed to schedule pod, '));

/** Milliseconds since 1970 of the last occurrence. */
function occurredAt({ series, lastTimestamp, eventTime, metadata }: KubeEvent): number {
  const { creationTimestamp } = metadata;
  return Date.parse(series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? creationTimestamp);
}

/**
 * Time of the last announcement of a node; undefined when there is none, or when the autoscaler has
 * said later that it adds none.
 */
export function announcementIn(events: readonly KubeEvent[]): string | undefined {
  const latest = (of: (event: KubeEvent) => boolean): number =>
    Math.max(-Infinity, ...events.filter(of).map(occurredAt).filter(Number.isFinite));
  const announcedAt = latest(({ reason = '' }) => announcing.has(reason));
  return Number.isFinite(announcedAt) && announcedAt >= latest(isDenial)
    ? new Date(announcedAt).toISOString()
    : undefined;
}
