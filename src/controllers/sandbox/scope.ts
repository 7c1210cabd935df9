import { agentPortOf } from '../../agent/kinds.ts';
import type { CachedPod, CachedClaim } from '../../resources/cached-core.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { shouldRun } from '../../status/sandbox-phase.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { agentPortOfPod } from './pod.ts';
import type { SandboxProgress } from './status.ts';
import type { NodeAddition } from './node-additions.ts';

/** The observed state of a sandbox. All objects come from caches, so each may be outdated. */
export interface ObservedSandbox {
  readonly sandbox: Sandbox;
  readonly template: SandboxTemplate | undefined;
  readonly claim: CachedClaim | undefined;
  readonly pod: CachedPod | undefined;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** Milliseconds since `status.startingSinceTime`, despite clock jumps; 0 if it is absent. */
  readonly startingForMs: number;
  /** Milliseconds for which the creation of the pod waits for its claim to be bound. */
  readonly bindsInMs: number;
  /** Milliseconds until a pod that has ended may be replaced. */
  readonly replaceInMs: number;
  /** Absent if the step does not depend on an autoscaler. */
  readonly nodeAddition?: NodeAddition;
}

export interface WaitingFor {
  readonly reason: string;
  readonly message: string;
  readonly requeueAfterMs?: number | undefined;
  /** Whether the cluster or a person removes the pod in which the agent has run until now. */
  readonly isDisrupted?: boolean;
}

/**
 * The next step. A step with a reason keeps the sandbox STARTING. `requeueAfterMs` covers changes
 * that no watch reports.
 */
export type SandboxStep =
  | { readonly kind: 'create-claim'; readonly template: SandboxTemplate }
  | { readonly kind: 'create-pod'; readonly template: SandboxTemplate }
  /** The agent runs, but has not answered since its container started, or since a stop. */
  | { readonly kind: 'connect-agent'; readonly podIP: string; readonly containerID: string }
  | { readonly kind: 'running'; readonly podIP: string; readonly containerID: string }
  | ({ readonly kind: 'wait' } & WaitingFor)
  /** Deletes a pod that has ended or was lost, so that a new pod can use the volume. */
  | ({ readonly kind: 'replace-pod'; readonly pod: CachedPod } & WaitingFor)
  /** Stops the agent, then deletes the pod. `podIP` is absent if no agent can be running. */
  | { readonly kind: 'stop-agent'; readonly pod: CachedPod; readonly podIP: string | undefined }
  | { readonly kind: 'stopped' }
  /** Removes the failure of a sandbox, because a person has requested it again. */
  | { readonly kind: 'recover' }
  /** Deletes the claim after a failed first start, because the volume has no work of the owner. */
  | { readonly kind: 'delete-claim'; readonly claim: CachedClaim }
  | { readonly kind: 'fail'; readonly code: string; readonly message: string };

/** The objects that a reconcile of one sandbox has found and created so far. */
export interface Scope {
  sandbox: Sandbox;
  /** Whether this reconcile has stored the reservation of the slot, or has read it. */
  reserved: boolean;
  readonly template: SandboxTemplate | undefined;
  claim: CachedClaim | undefined;
  pod: CachedPod | undefined;
  /** Whether the cache lacks the pod. A watch may then not report when the pod ends. */
  uncached?: boolean;
}

/** Interval at which a waiting sandbox is reconciled again, in milliseconds. */
export const patientIntervalMs = 1_000;

/** Key in `ElapsedTimes` of the time at which the start of a sandbox began. */
export const startKeyOf = ({ metadata }: Sandbox): string => `start/${metadata.uid}`;

export interface Outcome {
  /** The new status; absent if the cache is outdated, so that the status does not change. */
  readonly progress?: SandboxProgress;
  /** The API server's text about a rejected creation, only for Events and logs. */
  readonly serverMessage?: string;
  readonly requeueAfterMs?: number | undefined;
}

/** The outcome of an outdated cache. A watch brings a newer version; the delay is a fallback. */
export const outdated: Outcome = { requeueAfterMs: 5_000 };

/** The status fields of the pod. The port is that of the existing pod, not of the template. */
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

/** The outcome of a failure. The next step deletes the pod: a failed sandbox does not run. */
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
