import type { CommonNeeds } from '../controller-spec.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { ElapsedTimes } from '../elapsed-times.ts';
import { ClaimBindings } from './claim.ts';
import { dependsOnNodeAddition, hasEnded, startDeadlineMsOf } from './decide.ts';
import { NodeAdditions } from './node-additions.ts';
import type { PodBackoff } from './pod-loss.ts';
import { startKeyOf, type ObservedSandbox, type Scope } from './scope.ts';
import { isUndecided, progressSince } from './status.ts';

export interface SandboxObserverOptions extends CommonNeeds {
  readonly elapsed: ElapsedTimes;
  readonly podBackoff: PodBackoff;
}

/**
 * Minimum age in milliseconds of a start before its steps are stored. A start takes less time if
 * its image is on the node.
 */
const passingMs = 3_000;
/**
 * Delay in milliseconds before a sandbox without an admission decision gets a status. The first
 * decision writes the status too, and an earlier write would cause a conflict.
 */
const undecidedMs = 5_000;

/** Measures the times, and reads the Events, on which the next step of a sandbox depends. */
export class SandboxObserver {
  readonly #options: SandboxObserverOptions;
  readonly #bindings: ClaimBindings;
  readonly #nodeAdditions: NodeAdditions;

  constructor(options: SandboxObserverOptions) {
    this.#options = options;
    this.#bindings = new ClaimBindings(options);
    this.#nodeAdditions = new NodeAdditions(options);
  }

  get podBackoff(): PodBackoff {
    return this.#options.podBackoff;
  }

  /** Milliseconds until the status of a step of an ordinary start is stored. */
  deferMs(sandbox: Sandbox): number {
    const { uid } = sandbox.metadata;
    const delayMs = isUndecided(sandbox) ? undecidedMs : passingMs;
    return delayMs - this.#options.elapsed.elapsedMs(`passing/${uid}`, progressSince(sandbox));
  }

  async observe(scope: Scope, signal: AbortSignal): Promise<ObservedSandbox> {
    const { clock, elapsed, podBackoff } = this.#options;
    const { sandbox, claim, pod } = scope;
    const { uid } = sandbox.metadata;
    const { startingSinceTime: since } = sandbox.status ?? {};
    const now = clock.now();
    if (pod !== undefined && hasEnded(pod)) {
      const { uid: podUid, creationTimestamp } = pod.metadata;
      podBackoff.ended(uid, podUid, now - Date.parse(creationTimestamp));
    }
    const observed = {
      ...scope,
      now,
      startingForMs: since === undefined ? 0 : elapsed.elapsedMs(startKeyOf(sandbox), since),
      bindsInMs: claim === undefined || pod !== undefined ? 0 : this.#bindings.waitMs(claim),
      replaceInMs: podBackoff.waitMs(uid),
    };
    if (pod === undefined || !dependsOnNodeAddition(observed)) return observed;
    const isFinal = observed.startingForMs >= startDeadlineMsOf(observed);
    const nodeAddition = await this.#nodeAdditions.of(pod, { isFinal, signal });
    return { ...observed, nodeAddition };
  }
}
