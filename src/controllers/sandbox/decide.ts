import type { PersistentVolumeClaim, Pod } from '../../resources/core.ts';
import { isOwnedBy } from '../../resources/object.ts';
import { SandboxReason, shouldRun, viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import { agentContainerOf, durationMs, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import { podTrouble } from './pod-trouble.ts';

export const SandboxFailure = {
  templateNotFound: 'TemplateNotFound',
  startDeadlineExceeded: 'StartDeadlineExceeded',
} as const;

/** What is known of a sandbox; all of it from caches, so all of it may be a little old. */
export interface ObservedSandbox {
  readonly sandbox: Sandbox;
  readonly template: SandboxTemplate | undefined;
  readonly claim: PersistentVolumeClaim | undefined;
  readonly pod: Pod | undefined;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** The next step. Steps with a reason leave the sandbox on its way; `requeueAfterMs` is for what no watch will report. */
export type SandboxStep =
  | { readonly kind: 'create-claim'; readonly template: SandboxTemplate }
  | { readonly kind: 'create-pod'; readonly template: SandboxTemplate }
  /** The agent runs, but has not been seen in this run of its container, or since it was told to stop. */
  | { readonly kind: 'connect-agent'; readonly podIP: string; readonly containerID: string }
  | { readonly kind: 'running'; readonly podIP: string; readonly containerID: string }
  | { readonly kind: 'wait'; readonly reason: string; readonly message: string; readonly requeueAfterMs?: number }
  /** A pod that has ended, or was lost, gives way to a new one on the same volume. */
  | { readonly kind: 'replace-pod'; readonly pod: Pod; readonly message: string }
  /** Ask the agent to stop, then delete the pod. `podIP` is absent when no agent can be running. */
  | { readonly kind: 'stop-agent'; readonly pod: Pod; readonly podIP: string | undefined }
  | { readonly kind: 'stopped' }
  | { readonly kind: 'fail'; readonly code: string; readonly message: string };

/** A template applied together with its first sandbox may reach us a little later. */
const templateGraceMs = 5_000;
const defaultStartDeadlineMs = 5 * 60_000;

const since = (now: number, timestamp: string | undefined): number => (timestamp === undefined ? 0 : now - Date.parse(timestamp));

const agentStatusOf = (pod: Pod, template: SandboxTemplate | undefined) => {
  const name = template === undefined ? undefined : agentContainerOf(template)?.name;
  const statuses = pod.status?.containerStatuses ?? [];
  return statuses.find((status) => status.name === name) ?? statuses[0];
};

function decideRunning({ sandbox, template, claim, pod, now }: ObservedSandbox): SandboxStep {
  const startingFor = since(now, sandbox.status?.startingSince);
  if (pod?.metadata.deletionTimestamp !== undefined) {
    return { kind: 'wait', reason: SandboxReason.waitingForPod, message: 'Waiting for the old pod to end.' };
  }
  if (pod !== undefined && !isOwnedBy(pod, sandbox)) {
    return {
      kind: 'wait',
      reason: SandboxReason.waitingForPod,
      message: 'Waiting for a pod of the same name to go.',
      requeueAfterMs: 2_000,
    };
  }
  if (pod === undefined && template === undefined) {
    if (startingFor < templateGraceMs) {
      return { kind: 'wait', reason: SandboxFailure.templateNotFound, message: 'Waiting for its template.', requeueAfterMs: 1_000 };
    }
    return { kind: 'fail', code: SandboxFailure.templateNotFound, message: `There is no sandbox template ${sandbox.spec.templateName}.` };
  }
  const trouble = pod === undefined ? undefined : podTrouble(pod);
  if (trouble?.fatal === true) return { kind: 'fail', code: trouble.code, message: trouble.message };
  const deadlineMs = template === undefined ? defaultStartDeadlineMs : durationMs(template.spec.startDeadline);
  if (startingFor >= deadlineMs) {
    const seconds = Math.round(deadlineMs / 1000);
    return {
      kind: 'fail',
      code: trouble?.code ?? SandboxFailure.startDeadlineExceeded,
      message: trouble?.message ?? `The sandbox was not ready within ${seconds} s.`,
    };
  }
  if (template !== undefined && claim === undefined) return { kind: 'create-claim', template };
  if (template !== undefined && pod === undefined) return { kind: 'create-pod', template };
  if (pod === undefined)
    return { kind: 'wait', reason: SandboxReason.waitingForPod, message: 'Waiting for its pod.', requeueAfterMs: 1_000 };
  if (pod.status?.phase === 'Failed' || pod.status?.phase === 'Succeeded') {
    return { kind: 'replace-pod', pod, message: `The pod ended${pod.status.reason === undefined ? '' : ` (${pod.status.reason})`}.` };
  }
  const agent = agentStatusOf(pod, template);
  const podIP = pod.status?.podIP;
  const untilDeadline = deadlineMs - startingFor;
  if (agent?.state?.running === undefined || agent.containerID === undefined || podIP === undefined) {
    return {
      kind: 'wait',
      reason: trouble?.code ?? SandboxReason.waitingForPod,
      message: trouble?.message ?? 'Waiting for its pod to start.',
      requeueAfterMs: untilDeadline,
    };
  }
  const { status } = sandbox;
  // One that was resumed while its runs were being cut is connected anew.
  const known = status?.containerID === agent.containerID && status.podIP === podIP && status.pausedAt === undefined;
  return { kind: known ? 'running' : 'connect-agent', podIP, containerID: agent.containerID };
}

/** What to do next for a sandbox. Pure: the same observation, the same step. */
export function decideSandbox(observed: ObservedSandbox): SandboxStep {
  const { sandbox, pod } = observed;
  if (shouldRun(sandbox)) return decideRunning(observed);
  if (pod === undefined || !isOwnedBy(pod, sandbox)) return { kind: 'stopped' };
  const { reason, message } = viewOfSandbox(sandbox);
  if (pod.metadata.deletionTimestamp !== undefined) return { kind: 'wait', reason, message };
  const running = pod.status?.phase === 'Running' && sandbox.status?.containerID !== undefined;
  return { kind: 'stop-agent', pod, podIP: running ? pod.status.podIP : undefined };
}
