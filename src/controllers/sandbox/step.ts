import type { CachedClaim, CachedPod } from '../../resources/cached-core.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { NodeAddition } from './node-addition.ts';

/** The observed state of a sandbox. All objects come from caches, so all may be a little old. */
export interface ObservedSandbox {
  readonly sandbox: Sandbox;
  readonly template: SandboxTemplate | undefined;
  readonly claim: CachedClaim | undefined;
  readonly pod: CachedPod | undefined;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** Milliseconds since `status.startingSinceTime`, whatever clocks say; 0 without one. */
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
  /** The cluster, or a person, takes away the pod in which its agent has been until now. */
  readonly isDisrupted?: boolean;
}

/**
 * The next step. Steps with a reason leave the sandbox on its way; `requeueAfterMs` is for changes
 * that no watch reports.
 */
export type SandboxStep =
  | { readonly kind: 'create-claim'; readonly template: SandboxTemplate }
  | { readonly kind: 'create-pod'; readonly template: SandboxTemplate }
  /**
   * The agent runs, but has not answered in this run of its container, or since it was asked to
   * stop.
   */
  | { readonly kind: 'connect-agent'; readonly podIP: string; readonly containerID: string }
  | { readonly kind: 'running'; readonly podIP: string; readonly containerID: string }
  | ({ readonly kind: 'wait' } & WaitingFor)
  /** A pod that has ended, or was lost, gives way to a new one on the same volume. */
  | ({ readonly kind: 'replace-pod'; readonly pod: CachedPod } & WaitingFor)
  /** Ask the agent to stop, then delete the pod. `podIP` is absent when no agent can be running. */
  | { readonly kind: 'stop-agent'; readonly pod: CachedPod; readonly podIP: string | undefined }
  | { readonly kind: 'stopped' }
  /** A person has asked for the sandbox since it failed: it may try again. */
  | { readonly kind: 'recover' }
  /** The first start has failed: the volume holds no work of the owner. */
  | { readonly kind: 'delete-claim'; readonly claim: CachedClaim }
  | { readonly kind: 'fail'; readonly code: string; readonly message: string };
