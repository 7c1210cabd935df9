import { agentPortOf } from '../../agent/kinds.ts';
import type { CachedPod } from '../../resources/cached-pod.ts';
import type { CachedClaim } from '../../resources/cached-claim.ts';
import { shouldRun, type Sandbox } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { WaitingFor } from './name-in-use.ts';
import { agentPortOfPod } from './pod.ts';
import type { SandboxProgress } from './status.ts';

/** What a reconcile of one sandbox has found and done so far. */
export interface Scope {
  sandbox: Sandbox;
  /** That it may have a pod has been stored, or seen to be stored, in this reconcile. */
  reserved: boolean;
  readonly template: SandboxTemplate | undefined;
  claim: CachedClaim | undefined;
  pod: CachedPod | undefined;
  /** The cache does not have the pod, so maybe no watch will tell when it goes. */
  uncached?: boolean;
}

export interface Outcome {
  /** Absent: what the cache shows is not true any more, so nothing is said of it. */
  readonly progress?: SandboxProgress;
  /** The API server's own words on why something could not be created: for Events and logs alone. */
  readonly serverMessage?: string;
  readonly requeueAfterMs?: number | undefined;
}

/** The watch will say so; this is for the case that it has fallen silent. */
export const outdated: Outcome = { requeueAfterMs: 5_000 };

/** What is seen of a sandbox's pod. The port is the one that the pod was made with, whatever the template says now. */
export function observedOf({ pod, template, sandbox }: Scope): Pick<SandboxProgress, 'pod' | 'agentPort'> {
  const made = pod === undefined ? undefined : agentPortOfPod(pod);
  return {
    agentPort: made ?? sandbox.status?.agentPort ?? (template === undefined ? undefined : agentPortOf(sandbox, template)),
    ...(pod === undefined ? {} : { pod: { name: pod.metadata.name, uid: pod.metadata.uid, ip: pod.status?.podIP } }),
  };
}

export function waiting(scope: Scope, { reason, message, requeueAfterMs, isDisrupted = false }: WaitingFor): Outcome {
  const progress = { ...observedOf(scope), ready: false, reason, message, wanted: shouldRun(scope.sandbox), isDisrupted };
  return { progress, requeueAfterMs };
}

/** Its pod goes with the next step: what has failed is not meant to run any more. */
export function failed(scope: Scope, { code, message }: { readonly code: string; readonly message: string }): Outcome {
  return {
    progress: { ...observedOf(scope), ready: false, reason: code, message, failed: { code, message }, wanted: false },
    requeueAfterMs: 0,
  };
}
