import type { CommonNeeds } from '../controller-spec.ts';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { kubeEvents, type KubeEvent } from '@conversation-operator/kube/core';
import { isForbidden } from '@conversation-operator/kube/errors';
import type { CachedPod } from '../../resources/cached-core.ts';
import type { ElapsedTimes } from '../elapsed-times.ts';

/**
 * Whether an autoscaler adds a node for a pod, by its last Event. `denied`: it adds none, or there
 * is no Event. `unknown`: the Events could not be read.
 */
export type NodeAddition = 'announced' | 'denied' | 'unknown';

/**
 * Maximum age of an announcement. The cluster autoscaler (`--max-node-provision-time`) and
 * Karpenter (`registrationTimeout`) give up on a node that has not joined after 15 minutes. The
 * cluster autoscaler announces a node once, Karpenter at most every two minutes.
 */
const maxAnnouncementAgeMs = 15 * 60_000;
/**
 * Maximum time after the start deadline for which unreadable Events keep a start from failing. Most
 * transient failures of the API server are shorter.
 */
export const unknownGraceMs = 60_000;
/**
 * Delay before the Events about an unschedulable pod are first read, because both autoscalers look
 * for such pods every ten seconds. The start deadline stops counting once an announcement is read.
 */
export const firstCheckMs = 10_000;
/** Delay before the Events about a pod are read again, by the result of the last read. */
export const nextCheckMs: Readonly<Record<NodeAddition, number>> = {
  announced: 60_000,
  denied: 30_000,
  unknown: 5_000,
};

/** Reasons of announcements by the cluster autoscaler and by Karpenter. */
const announcing: ReadonlySet<string> = new Set(['TriggeredScaleUp', 'Nominated']);

/** Whether an Event says that no node is added. The message shows whether Karpenter wrote it. */
const isDenial = ({ reason, message = '' }: KubeEvent): boolean =>
  reason === 'NotTriggerScaleUp' ||
  (reason === 'FailedScheduling' && message.startsWith('Failed to schedule pod, '));

/** Milliseconds since 1970 of the last occurrence of an Event. */
function occurredAt({ series, lastTimestamp, eventTime, metadata }: KubeEvent): number {
  const { creationTimestamp } = metadata;
  return Date.parse(series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? creationTimestamp);
}

/** Time of the last announcement of a node; undefined if there is none, or a denial came later. */
export function announcementIn(events: readonly KubeEvent[]): string | undefined {
  const latest = (of: (event: KubeEvent) => boolean): number =>
    Math.max(-Infinity, ...events.filter(of).map(occurredAt).filter(Number.isFinite));
  const announcedAt = latest(({ reason = '' }) => announcing.has(reason));
  return Number.isFinite(announcedAt) && announcedAt >= latest(isDenial)
    ? new Date(announcedAt).toISOString()
    : undefined;
}

/** Maximum pods in memory. The Events about any other pod are read again. */
const maxPods = 10_000;

export interface NodeAdditionsOptions extends CommonNeeds {
  readonly elapsed: ElapsedTimes;
}

interface Statement {
  /** Time of the announcement of a node; absent if no autoscaler adds one. */
  readonly since?: string | undefined;
  /** Monotonic time at which the Events were read. */
  readonly readAt: number;
}

/**
 * Reads from the Events about a pod whether an autoscaler adds a node for it. The conditions of the
 * pod do not show that. For each read the API server searches all Events of the namespace, so a
 * result stays valid for the time in `nextCheckMs`.
 */
export class NodeAdditions {
  readonly #options: NodeAdditionsOptions;
  /** The result of the last read of the Events about a pod, by the UID of the pod. */
  readonly #statements = recentlyUsed<Statement>(maxPods);

  constructor(options: NodeAdditionsOptions) {
    this.#options = options;
  }

  /**
   * Whether an autoscaler adds a node for the pod, according to the Events. If `isFinal`, the start
   * fails unless the answer is `announced`, so no other answer is taken from memory.
   */
  async of(
    { metadata }: CachedPod,
    { isFinal, signal }: { readonly isFinal: boolean; readonly signal: AbortSignal },
  ): Promise<NodeAddition> {
    const { clock, client, logger } = this.#options;
    const { uid, namespace = '', name } = metadata;
    const known = this.#statements.get(uid);
    if (known !== undefined) {
      const addition = this.#judge(uid, known);
      const isRecent = clock.monotonic() - known.readAt < nextCheckMs[addition];
      if (isRecent && (addition === 'announced' || !isFinal)) return addition;
    }
    let events: readonly KubeEvent[];
    try {
      const fieldSelector = `involvedObject.uid=${uid}`;
      ({ items: events } = await client.list(kubeEvents, { namespace, fieldSelector, signal }));
    } catch (error) {
      signal.throwIfAborted();
      // The roles of an earlier release do not allow the operator to read Events.
      if (isForbidden(error)) return this.#remember(uid, undefined);
      logger.warn('events of a pod can not be read', { namespace, pod: name, error });
      return known?.since === undefined ? 'unknown' : this.#judge(uid, known);
    }
    return this.#remember(uid, announcementIn(events));
  }

  #remember(uid: string, since: string | undefined): NodeAddition {
    const statement = { since, readAt: this.#options.clock.monotonic() };
    this.#statements.set(uid, statement);
    return this.#judge(uid, statement);
  }

  /** `ElapsedTimes` measures the age of the announcement, so that no clock jump ends a wait. */
  #judge(uid: string, { since }: Statement): NodeAddition {
    if (since === undefined) return 'denied';
    const ageMs = this.#options.elapsed.elapsedMs(`node/${uid}`, since);
    return ageMs < maxAnnouncementAgeMs ? 'announced' : 'denied';
  }
}
