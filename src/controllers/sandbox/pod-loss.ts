import { SandboxReason } from '../../resources/sandbox.ts';
import type { Pod } from '../../resources/core.ts';
import { TroubleCode } from './trouble.ts';

/** Why a pod went, or goes, that was still wanted. */
export interface PodLoss {
  readonly code: typeof TroubleCode.podEvicted | typeof TroubleCode.nodeLost | typeof SandboxReason.podLost;
  /** Safe to show to the sandbox's owner. */
  readonly message: string;
}

const evicted = (why: string): PodLoss => ({ code: TroubleCode.podEvicted, message: `Its pod was evicted${why}.` });
const shutDown: PodLoss = { code: TroubleCode.nodeLost, message: 'Its node was shut down.' };

/** Of the condition DisruptionTarget, by its reason; an eviction says who asked for it in its message alone. */
function disruptionOf({ status }: Pod): PodLoss | undefined {
  const disrupted = status?.conditions?.find(({ type, status: holds }) => type === 'DisruptionTarget' && holds === 'True');
  switch (disrupted?.reason) {
    case 'EvictionByEvictionAPI':
      return evicted(' from its node, which is being emptied');
    case 'PreemptionByScheduler':
      return evicted(' for one of a higher priority');
    case 'DeletionByTaintManager':
      return {
        code: TroubleCode.nodeLost,
        message: 'Its pod was taken from its node, which does not answer or does not take it any more.',
      };
    case 'DeletionByPodGC':
      return { code: TroubleCode.nodeLost, message: 'Its node does not exist any more.' };
    case 'DeletionByDeviceTaintManager':
      return evicted(' because a device of its node does not take it any more');
    default:
      // TerminationByKubelet says no more than the pod's own reason.
      return undefined;
  }
}

/** Of a pod's own status, in a kubelet's words. */
function endOf({ status }: Pod): PodLoss | undefined {
  const { reason, message = '' } = status ?? {};
  switch (reason) {
    case 'Evicted':
      if (/ephemeral|EmptyDir/.test(message)) return evicted(': it used more ephemeral storage than its template allows');
      return evicted(/low on resource: memory|MemoryPressure/.test(message) ? ': its node was short of memory' : ' from its node');
    case 'Preempting':
      return evicted(' for one of a higher priority');
    case 'NodeLost':
      return { code: TroubleCode.nodeLost, message: 'Its node does not answer.' };
    case 'Terminated':
    case 'NodeShutdown':
    case 'Shutdown':
      return shutDown;
    default:
      return undefined;
  }
}

/** What is known of the reason when a pod has ended, or is being deleted by somebody else. Reasons of a kubelet are words, not sentences. */
export function podLoss(pod: Pod): PodLoss {
  const known = disruptionOf(pod) ?? endOf(pod);
  if (known !== undefined) return known;
  const reason = /^[A-Za-z-]{1,64}$/.exec(pod.status?.reason ?? '')?.[0];
  const how = pod.metadata.deletionTimestamp === undefined ? 'The pod ended' : 'Its pod was deleted';
  return { code: SandboxReason.podLost, message: `${how}${reason === undefined ? '' : ` (${reason})`}.` };
}

const codes: ReadonlySet<string> = new Set([TroubleCode.podEvicted, TroubleCode.nodeLost, SandboxReason.podLost]);
export const isLossCode = (reason: string): boolean => codes.has(reason);
