import type { CommonNeeds } from '../controller-spec.ts';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { kubeEvents, type KubeEvent } from '@conversation-operator/kube/core';
import { isForbidden } from '@conversation-operator/kube/errors';
import type { CachedPod } from '../../resources/cached-core.ts';
import type { ElapsedTimes } from '../elapsed-times.ts';

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
const maxAnnouncementAgeMs = 15 * 60_000;
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

/** Maximum pods in memory. The Events about another one are read again. */
const maxPods = 10_000;

export interface NodeAdditionsOptions extends CommonNeeds {
  readonly elapsed: ElapsedTimes;
}

/** The last statement of an autoscaler on a new node for a pod. */
interface Statement {
  /** Time of the announcement of a node; absent: an autoscaler adds none. */
  readonly since?: string | undefined;
  /** When the Events were read, by the monotonic clock. */
  readonly readAt: number;
}

/**
 * NodeAdditions reads whether an autoscaler adds a node for a pod, from the Events about the pod.
 * Only Events say so: the conditions of the pod are those of a pod that fits no node. The API
 * server searches all Events of the namespace for each read, so that their statement counts for a
 * while without another read.
 */
export class NodeAdditions {
  readonly #options: NodeAdditionsOptions;
  /** By the UID of the pod. */
  readonly #statements = recentlyUsed<Statement>(maxPods);

  constructor(options: NodeAdditionsOptions) {
    this.#options = options;
  }

  /**
   * The present statement. With `isFinal` the start ends unless a node is announced, so that a
   * denial is read again.
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

  /** A clock that jumps, or that of an autoscaler which is ahead, ends no wait. */
  #judge(uid: string, { since }: Statement): NodeAddition {
    if (since === undefined) return 'denied';
    const ageMs = this.#options.elapsed.elapsedMs(`node/${uid}`, since);
    return ageMs < maxAnnouncementAgeMs ? 'announced' : 'denied';
  }
}
