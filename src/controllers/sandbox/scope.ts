import { agentPortOf } from '../../agent/kinds.ts';
import type { CachedPod, CachedClaim } from '../../resources/cached-core.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { shouldRun } from '../../status/sandbox-phase.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { agentPortOfPod } from './pod.ts';
import type { SandboxProgress } from './status.ts';
import type { NodeAddition } from './node-additions.ts';

/** The observed state of a sandbox. All objects are from caches, so all may be outdated. */
export interface ObservedSandbox {
  readonly sandbox: Sandbox;
  readonly template: SandboxTemplate | undefined;
  readonly claim: CachedClaim | undefined;
  readonly pod: CachedPod | undefined;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** Milliseconds since `status.startingSinceTime` whatever the clocks show; 0 without one. */
  readonly startingForMs: number;
  /** Milliseconds for which a pod that is to be created waits for its claim to be bound. */
  readonly bindsInMs: number;
  /** Milliseconds until a pod that has ended may be replaced. */
  readonly replaceInMs: number;
  /** Absent: the step does not depend on that. */
  readonly nodeAddition?: NodeAddition;
}

/** The reason for which a sandbox waits, as its status shows it. */
export interface WaitingFor {
  readonly reason: string;
  readonly message: string;
  readonly requeueAfterMs?: number | undefined;
  /** The cluster, or a person, removes the pod in which its agent has been until now. */
  readonly isDisrupted?: boolean;
}

/**
 * The next step. Steps with a reason keep the sandbox STARTING; `requeueAfterMs` is for changes
 * that no watch reports.
 */
export type SandboxStep =
  | { readonly kind: 'create-claim'; readonly template: SandboxTemplate }
  | { readonly kind: 'create-pod'; readonly template: SandboxTemplate }
  /** The agent runs, but has not answered in this run of its container, or since its stop. */
  | { readonly kind: 'connect-agent'; readonly podIP: string; readonly containerID: string }
  | { readonly kind: 'running'; readonly podIP: string; readonly containerID: string }
  | ({ readonly kind: 'wait' } & WaitingFor)
  /** A pod that has ended, or was lost, is deleted for a new one on the same volume. */
  | ({ readonly kind: 'replace-pod'; readonly pod: CachedPod } & WaitingFor)
  /** Stop the agent, then delete the pod. `podIP` is absent when no agent can be running. */
  | { readonly kind: 'stop-agent'; readonly pod: CachedPod; readonly podIP: string | undefined }
  | { readonly kind: 'stopped' }
  /** A person has requested the failed sandbox again: it may retry. */
  | { readonly kind: 'recover' }
  /** The first start has failed: the volume has no work of the owner. */
  | { readonly kind: 'delete-claim'; readonly claim: CachedClaim }
  | { readonly kind: 'fail'; readonly code: string; readonly message: string };

/** The objects that a reconcile of one sandbox has found and created so far. */
export interface Scope {
  sandbox: Sandbox;
  /** Whether this reconcile has stored the slot's reservation, or has read that it is stored. */
  reserved: boolean;
  readonly template: SandboxTemplate | undefined;
  claim: CachedClaim | undefined;
  pod: CachedPod | undefined;
  /** Whether the cache lacks the pod, so that no watch may report its end. */
  uncached?: boolean;
}

/** Interval at which a waiting sandbox is reconciled again, in milliseconds. */
export const patientIntervalMs = 1_000;

/** Key in ElapsedTimes of the time since which a sandbox starts. */
export const startKeyOf = ({ metadata }: Sandbox): string => `start/${metadata.uid}`;

export interface Outcome {
  /** Absent when the cache is outdated, so that the status stays. */
  readonly progress?: SandboxProgress;
  /** The API server's text on a rejected creation, for Events and logs alone. */
  readonly serverMessage?: string;
  readonly requeueAfterMs?: number | undefined;
}

/** The outcome for an outdated cache. A watch brings the newer version; the delay is a fallback. */
export const outdated: Outcome = { requeueAfterMs: 5_000 };

/** The observed state of a pod. The port is that of the pod, whatever the template says now. */
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

/** The outcome of a failure. The next step deletes the pod, as a failed sandbox does not run. */
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
