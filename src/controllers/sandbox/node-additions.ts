import type { CommonNeeds } from '../controller-spec.ts';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { kubeEvents, type KubeEvent } from '@conversation-operator/kube/core';
import { isForbidden } from '@conversation-operator/kube/errors';
import type { CachedPod } from '../../resources/cached-core.ts';
import type { ElapsedTimes } from '../elapsed-times.ts';

/**
 * An autoscaler's last statement about a new node for a pod. No Event counts as `denied`.
 * `unknown`: the Events could not be read.
 */
export type NodeAddition = 'announced' | 'denied' | 'unknown';

/**
 * Maximum age of an announcement. The cluster autoscaler (`--max-node-provision-time`) and
 * Karpenter (`registrationTimeout`) give up a node that has not joined after 15 minutes. The
 * cluster autoscaler announces a node once; Karpenter repeats that every two minutes at most.
 */
const maxAnnouncementAgeMs = 15 * 60_000;
/**
 * Time after the start deadline in which unreadable Events prevent the end of a start. A transient
 * failure of the API server is shorter.
 */
export const unknownGraceMs = 60_000;
/**
 * Delay before the Events about a pod without a node are first read: both autoscalers search for
 * such pods every ten seconds. The pod of a node that joins only has its whole deadline once the
 * announcement is known.
 */
export const firstCheckMs = 10_000;
/** Delay before the Events about a pod are read again, by their last statement. */
export const nextCheckMs: Readonly<Record<NodeAddition, number>> = {
  announced: 60_000,
  denied: 30_000,
  unknown: 5_000,
};

/** Reasons of the cluster autoscaler and of Karpenter. */
const announcing: ReadonlySet<string> = new Set(['TriggeredScaleUp', 'Nominated']);

/** Whether an autoscaler adds no node. Karpenter uses the scheduler's reason, with its own text. */
const isDenial = ({ reason, message = '' }: KubeEvent): boolean =>
  reason === 'NotTriggerScaleUp' ||
  (reason === 'FailedScheduling' && message.startsWith('Failed to schedule pod, '));

/** Milliseconds since 1970 of the last occurrence. */
function occurredAt({ series, lastTimestamp, eventTime, metadata }: KubeEvent): number {
  const { creationTimestamp } = metadata;
  return Date.parse(series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? creationTimestamp);
}

/** Time of the last announcement of a node; undefined without one, or after a denial. */
export function announcementIn(events: readonly KubeEvent[]): string | undefined {
  const latest = (of: (event: KubeEvent) => boolean): number =>
    Math.max(-Infinity, ...events.filter(of).map(occurredAt).filter(Number.isFinite));
  const announcedAt = latest(({ reason = '' }) => announcing.has(reason));
  return Number.isFinite(announcedAt) && announcedAt >= latest(isDenial)
    ? new Date(announcedAt).toISOString()
    : undefined;
}

/** Maximum pods in memory. The Events about another one are read again. */
const maxPods = 10_000;

export interface NodeAdditionsOptions extends CommonNeeds {
  readonly elapsed: ElapsedTimes;
}

interface Statement {
  /** Time of the announcement of a node; absent: an autoscaler adds none. */
  readonly since?: string | undefined;
  /** Monotonic time at which the Events were read. */
  readonly readAt: number;
}

/**
 * Reads from the Events about a pod whether an autoscaler adds a node for it. Only Events show
 * that: the conditions of the pod are those of a pod that fits no node. The API server searches all
 * Events of the namespace for each read, so a result stays valid for a while.
 */
export class NodeAdditions {
  readonly #options: NodeAdditionsOptions;
  /** By the UID of the pod. */
  readonly #statements = recentlyUsed<Statement>(maxPods);

  constructor(options: NodeAdditionsOptions) {
    this.#options = options;
  }

  /**
   * Whether an autoscaler adds a node for the pod, as the Events say. With `isFinal` (the start
   * would fail otherwise) any answer but `announced` is read again.
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
      // A cluster whose roles are of an earlier release does not let the operator read Events.
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

  /** Neither a clock jump nor an autoscaler's fast clock ends a wait. */
  #judge(uid: string, { since }: Statement): NodeAddition {
    if (since === undefined) return 'denied';
    const ageMs = this.#options.elapsed.elapsedMs(`node/${uid}`, since);
    return ageMs < maxAnnouncementAgeMs ? 'announced' : 'denied';
  }
}
