import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { kubeEvents, type KubeEvent } from '@conversation-operator/kube/core';
import { isForbidden } from '@conversation-operator/kube/errors';
import type { CachedPod } from '../../resources/cached-core.ts';
import type { ElapsedTimes } from '../elapsed-times.ts';
import type { OperatorRuntime } from '../operator-runtime.ts';
import {
  announcementIn,
  maxAnnouncementAgeMs,
  nextCheckMs,
  type NodeAddition,
} from './node-addition.ts';

/** Maximum pods in memory. The Events about another one are read again. */
const maxPods = 10_000;

export interface NodeAdditionsOptions extends Pick<OperatorRuntime, 'client' | 'clock' | 'logger'> {
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
