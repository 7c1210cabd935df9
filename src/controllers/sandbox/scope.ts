import { agentPortOf } from '../../agent/kinds.ts';
import type { CachedPod, CachedClaim } from '../../resources/cached-core.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { shouldRun } from '../../status/sandbox-phase.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { agentPortOfPod } from './pod.ts';
import type { SandboxProgress } from './status.ts';
import type { WaitingFor } from './step.ts';

/** The objects that a reconcile of one sandbox has found and made so far. */
export interface Scope {
  sandbox: Sandbox;
  /**
   * Whether this reconcile has stored the reservation of the slot, or has read that it is stored.
   */
  reserved: boolean;
  readonly template: SandboxTemplate | undefined;
  claim: CachedClaim | undefined;
  pod: CachedPod | undefined;
  /** Whether the cache lacks the pod, so that no watch may report its end. */
  uncached?: boolean;
}

/** Interval at which a sandbox that waits is reconciled again, in milliseconds. */
export const patientIntervalMs = 1_000;

/** Key of the time since which a sandbox starts, in ElapsedTimes. */
export const startKeyOf = ({ metadata }: Sandbox): string => `start/${metadata.uid}`;

export interface Outcome {
  /** Absent when the cache is outdated, so that the status stays. */
  readonly progress?: SandboxProgress;
  /** The API server's text on a refused creation, for Events and logs alone. */
  readonly serverMessage?: string;
  readonly requeueAfterMs?: number | undefined;
}

/**
 * The outcome for an outdated cache. A watch brings the newer version; the delay is for a watch
 * that has fallen silent.
 */
export const outdated: Outcome = { requeueAfterMs: 5_000 };

/**
 * The observed state of a sandbox's pod. The port is the one that the pod was made with, whatever
 * the template says now.
 */
export function observedOf({
  pod,
  template,
  sandbox,
}: Scope): Pick<SandboxProgress, 'pod' | 'agentPort'> {
  const made = pod === undefined ? undefined : agentPortOfPod(pod);
  return {
    agentPort:
      made ??
      sandbox.status?.agentPort ??
      (template === undefined ? undefined : agentPortOf(sandbox, template)),
    ...(pod === undefined
      ? {}
      : { pod: { name: pod.metadata.name, uid: pod.metadata.uid, ip: pod.status?.podIP } }),
  };
}

export function waiting(
  scope: Scope,
  { reason, message, requeueAfterMs, isDisrupted = false }: WaitingFor,
): Outcome {
  const progress = {
    ...observedOf(scope),
    ready: false,
    reason,
    message,
    wanted: shouldRun(scope.sandbox),
    isDisrupted,
  };
  return { progress, requeueAfterMs };
}

/**
 * The outcome of a failure. The next step deletes the pod, because a failed sandbox is not meant to
 * run any more.
 */
export function failed(
  scope: Scope,
  { code, message }: { readonly code: string; readonly message: string },
): Outcome {
  return {
    progress: {
      ...observedOf(scope),
      ready: false,
      reason: code,
      message,
      failed: { code, message },
      wanted: false,
    },
    requeueAfterMs: 0,
  };
}
