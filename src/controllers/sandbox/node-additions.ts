import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { kubeEvents, type KubeEvent } from '@conversation-operator/kube/core';
import { isForbidden } from '@conversation-operator/kube/errors';
import type { CachedPod } from '../../resources/cached-pod.ts';
import type { ElapsedTimes } from '../elapsed-times.ts';
import type { OperatorRuntime } from '../operator-runtime.ts';
import {
  announcementCheckMs,
  announcementIn,
  maxAnnouncementAgeMs,
  type NodeAddition,
} from './node-addition.ts';

/** Maximum pods in memory. An announcement that is forgotten is read again. */
const maxPods = 10_000;

export interface NodeAdditionsOptions extends Pick<OperatorRuntime, 'client' | 'clock' | 'logger'> {
  readonly elapsed: ElapsedTimes;
}

/** An announcement of a node for a pod. */
interface Announcement {
  /** Time of the Event. */
  readonly since: string;
  /** When the Events were read, by the monotonic clock. */
  readonly readAt: number;
}

/**
 * NodeAdditions reads whether an autoscaler adds a node for a pod, from the Events about the pod.
 * Only Events say so: the conditions of the pod are those of a pod that fits no node. The API
 * server searches all Events of the namespace for each read, so that an announcement counts for a
 * minute without another read.
 */
export class NodeAdditions {
  readonly #options: NodeAdditionsOptions;
  /** By the UID of the pod. */
  readonly #announcements = recentlyUsed<Announcement>(maxPods);

  constructor(options: NodeAdditionsOptions) {
    this.#options = options;
  }

  async of({ metadata }: CachedPod, signal: AbortSignal): Promise<NodeAddition> {
    const { clock, client, logger } = this.#options;
    const { uid, namespace = '', name } = metadata;
    const known = this.#announcements.get(uid);
    const isFresh = known !== undefined && clock.monotonic() - known.readAt < announcementCheckMs;
    // An announcement that counts no more may have been followed by another one.
    if (isFresh && this.#judge(uid, known.since) === 'announced') return 'announced';
    let events: readonly KubeEvent[];
    try {
      const fieldSelector = `involvedObject.uid=${uid}`;
      ({ items: events } = await client.list(kubeEvents, { namespace, fieldSelector, signal }));
    } catch (error) {
      signal.throwIfAborted();
      // A cluster whose roles are of an earlier release does not let the operator read Events.
      if (isForbidden(error)) return 'denied';
      logger.warn('events of a pod can not be read', { namespace, pod: name, error });
      return known === undefined ? 'unknown' : this.#judge(uid, known.since);
    }
    const since = announcementIn(events);
    if (since === undefined) {
      this.#announcements.delete(uid);
      return 'denied';
    }
    this.#announcements.set(uid, { since, readAt: clock.monotonic() });
    return this.#judge(uid, since);
  }

  /** A clock that jumps, or that of an autoscaler which is ahead, ends no wait. */
  #judge(uid: string, since: string): NodeAddition {
    const ageMs = this.#options.elapsed.elapsedMs(`node/${uid}`, since);
    return ageMs < maxAnnouncementAgeMs ? 'announced' : 'denied';
  }
}
