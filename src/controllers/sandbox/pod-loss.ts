import { SandboxReason } from '../../resources/sandbox.ts';
import type { CachedPod } from '../../resources/cached-core.ts';
import { FailureCode } from './failure.ts';
import { backoffDelayMs } from '@conversation-operator/base/backoff';
import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';

export interface PodLoss {
  readonly code:
    typeof FailureCode.podEvicted | typeof FailureCode.nodeLost | typeof SandboxReason.podLost;
  /** Text that the owner of the sandbox may see. */
  readonly message: string;
  /**
   * Whether the cluster or a person removed the pod. If false, a process in the pod may be the
   * cause, by a crash or by its use of memory or ephemeral storage.
   */
  readonly isDisruption: boolean;
}

const evicted = (why: string): PodLoss => ({
  code: FailureCode.podEvicted,
  message: `The pod of the sandbox was evicted${why}.`,
  isDisruption: true,
});
/**
 * An eviction by a kubelet under pressure. The pod that uses most is evicted first, so a run that
 * uses all memory or storage would be evicted each time.
 */
const evictedForUse = (why: string): PodLoss => ({ ...evicted(why), isDisruption: false });
const lostNode = (message: string): PodLoss => ({
  code: FailureCode.nodeLost,
  message,
  isDisruption: true,
});
const shutDown = lostNode('The node of the sandbox was shut down.');

/** The loss by the reason of the condition DisruptionTarget; undefined for any other reason. */
function disruptionOf({ status }: CachedPod): PodLoss | undefined {
  const disrupted = status?.conditions?.find(
    ({ type, status: holds }) => type === 'DisruptionTarget' && holds === 'True',
  );
  switch (disrupted?.reason) {
    case 'EvictionByEvictionAPI':
      return evicted(' from its node, which is being emptied');
    case 'PreemptionByScheduler':
      return evicted(' for one of a higher priority');
    case 'DeletionByTaintManager':
      return lostNode(
        'The pod of the sandbox was taken from its node, which does not answer or does not take the pod any more.',
      );
    case 'DeletionByPodGC':
      return lostNode('The node of the sandbox does not exist any more.');
    case 'DeletionByDeviceTaintManager':
      return evicted(' because a device of its node does not take it any more');
    default:
      // TerminationByKubelet adds nothing to the reason in the status of the pod.
      return undefined;
  }
}

/** The loss by the reason that a kubelet has written into the status of a pod. */
function endOf({ status }: CachedPod): PodLoss | undefined {
  const { reason, message = '' } = status ?? {};
  switch (reason) {
    case 'Evicted':
      if (/ephemeral|EmptyDir/.test(message))
        return evictedForUse(': it used more ephemeral storage than its template allows');
      return evictedForUse(
        /low on resource: memory|MemoryPressure/.test(message)
          ? ': its node was short of memory'
          : ' from its node',
      );
    case 'Preempting':
      return evicted(' for one of a higher priority');
    case 'NodeLost':
      return lostNode('The node of the sandbox does not answer.');
    case 'Terminated':
    case 'NodeShutdown':
    case 'Shutdown':
      return shutDown;
    default:
      return undefined;
  }
}

/**
 * The loss of a pod that has ended, or that another process or a person deletes. A message repeats
 * the pod's reason only if it is one word.
 */
export function podLoss(pod: CachedPod): PodLoss {
  const known = disruptionOf(pod) ?? endOf(pod);
  if (known !== undefined) return known;
  const reason = /^[A-Za-z-]{1,64}$/.exec(pod.status?.reason ?? '')?.[0];
  const isDisruption = pod.metadata.deletionTimestamp !== undefined;
  const how = isDisruption ? 'The pod of the sandbox was deleted' : 'The pod ended';
  return {
    code: SandboxReason.podLost,
    message: `${how}${reason === undefined ? '' : ` (${reason})`}.`,
    isDisruption,
  };
}

const codes: ReadonlySet<string> = new Set([
  FailureCode.podEvicted,
  FailureCode.nodeLost,
  SandboxReason.podLost,
]);
export const isLossCode = (reason: string): boolean => codes.has(reason);

interface Ended {
  readonly podUid: string;
  /** Number of consecutive pods that ended before `healthyMs`. */
  readonly failures: number;
  /** Monotonic time from which the next pod may be created. */
  readonly readyAt: number;
}

/** Minimum life of a pod that resets the back-off, as in the kubelet's CrashLoopBackOff. */
const healthyMs = 10 * 60_000;
const backoff = { baseMs: 5_000, capMs: 5 * 60_000 };
const maxRemembered = 20_000;

/**
 * Delays the next pod of a sandbox whose pod has ended. The delay doubles, because each attempt
 * costs the cluster a pod: a node under pressure or in shutdown rejects pods at once, and a client
 * that resumes a sandbox after each ERROR repeats a crash loop. The state is local to this process:
 * a new leader starts with the first delay.
 */
export class PodBackoff {
  readonly #clock: Clock;
  readonly #ended = recentlyUsed<Ended>(maxRemembered);

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Records that a pod has ended `livedMs` after its creation. Each pod counts once. */
  ended(sandboxUid: string, podUid: string, livedMs: number): void {
    const known = this.#ended.get(sandboxUid);
    if (known?.podUid === podUid) return;
    const now = this.#clock.monotonic();
    const forgotten = known === undefined || now - known.readyAt >= healthyMs;
    const failures = livedMs >= healthyMs ? 0 : (forgotten ? 0 : known.failures) + 1;
    const delayMs = failures === 0 ? 0 : backoffDelayMs(backoff, failures, () => 0);
    this.#ended.set(sandboxUid, { podUid, failures, readyAt: now + delayMs });
  }

  /** Whole milliseconds until the sandbox may have another pod; 0 when it may have one now. */
  waitMs(sandboxUid: string): number {
    return Math.ceil(
      Math.max(0, (this.#ended.get(sandboxUid)?.readyAt ?? 0) - this.#clock.monotonic()),
    );
  }
}
