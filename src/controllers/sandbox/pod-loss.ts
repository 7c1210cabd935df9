import { SandboxReason } from '../../resources/sandbox.ts';
import type { CachedPod } from '../../resources/cached-core.ts';
import { FailureCode } from './failure.ts';

/** The reason why a pod that was still wanted has ended or is being deleted. */
export interface PodLoss {
  readonly code:
    typeof FailureCode.podEvicted | typeof FailureCode.nodeLost | typeof SandboxReason.podLost;
  /** Text that the owner of the sandbox may see. */
  readonly message: string;
  /**
   * Whether the cluster or a person took the pod away. Otherwise its own processes may have: by
   * crashes, memory or scratch space.
   */
  readonly isDisruption: boolean;
}

const evicted = (why: string): PodLoss => ({
  code: FailureCode.podEvicted,
  message: `The pod of the sandbox was evicted${why}.`,
  isDisruption: true,
});
/**
 * Eviction by a kubelet under pressure: the pod that uses most is the first, and a run that takes
 * everything is evicted each time.
 */
const evictedForUse = (why: string): PodLoss => ({ ...evicted(why), isDisruption: false });
const lostNode = (message: string): PodLoss => ({
  code: FailureCode.nodeLost,
  message,
  isDisruption: true,
});
const shutDown = lostNode('The node of the sandbox was shut down.');

/**
 * The loss that the reason of the condition DisruptionTarget states. Only the message of an
 * eviction names its requester.
 */
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
      // TerminationByKubelet says no more than the pod's own reason.
      return undefined;
  }
}

/** The loss that a pod's own status states, in the terms of a kubelet. */
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
 * The known loss of a pod that has ended, or that another process or a person deletes. Only a
 * reason of one word is repeated.
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
