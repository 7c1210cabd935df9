import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { CachedClaim } from '../../resources/cached-claim.ts';
import { LastingValues } from '../elapsed-times.ts';

/** Time within which a storage class binds a new claim that waits for no pod. */
const bindsAtOnceMs = 1_000;
/** Maximum storage classes in memory. */
const maxClasses = 1_000;

/**
 * ClaimBindings says for how long the pod of a new claim waits, so that the claim is bound before
 * a scheduler sees the pod: for an unbound claim a scheduler reports FailedScheduling, and tries
 * again a second later at the earliest. Most storage classes bind a claim once its pod is scheduled
 * (WaitForFirstConsumer). The operator has no right to read storage classes. A pod waits for each
 * class once, and no more where that was in vain.
 */
export class ClaimBindings {
  readonly #seen: LastingValues;
  /** Storage classes that have not bound a claim before there was a pod. */
  readonly #late = recentlyUsed<true>(maxClasses);

  constructor(options: { readonly clock: Clock }) {
    this.#seen = new LastingValues(options);
  }

  /** Milliseconds for which the pod of this claim still waits. */
  waitMs({ metadata, spec, status }: CachedClaim): number {
    if (status?.phase === 'Bound' || status?.phase === 'Lost') return 0;
    const storageClass = spec?.storageClassName ?? '';
    if (this.#late.get(storageClass) !== undefined) return 0;
    const leftMs = bindsAtOnceMs - this.#seen.lastsMs(metadata.uid, 'unbound');
    if (leftMs <= 0) this.#late.set(storageClass, true);
    return Math.max(0, leftMs);
  }
}
