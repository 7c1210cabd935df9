import { findCondition, isTrue } from '../../resources/conditions.ts';
import { SandboxCondition, SandboxReason, type Sandbox } from '../../resources/sandbox.ts';

export type AdmissionDecision = { readonly admitted: boolean; readonly reason: string; readonly message: string } | undefined;

/**
 * Whether a sandbox gets a slot, or gives its own back; undefined leaves things as they are. Every sandbox that wants to run is
 * admitted. A slot is held until the pod is gone, not only until somebody has asked for a pause.
 */
export function decideAdmission(sandbox: Sandbox): AdmissionDecision {
  const conditions = sandbox.status?.conditions;
  const admitted = findCondition(conditions, SandboxCondition.admitted);
  const wantsToRun = sandbox.spec.replicas === 1 && !isTrue(conditions, SandboxCondition.failed);
  if (wantsToRun) {
    return admitted?.status === 'True' ? undefined : { admitted: true, reason: SandboxReason.admitted, message: 'No quota limits it.' };
  }
  const podGone = (sandbox.status?.replicas ?? 0) === 0;
  return admitted?.status === 'True' && podGone
    ? { admitted: false, reason: SandboxReason.waitingForAdmission, message: 'It has no pod and needs no slot.' }
    : undefined;
}
