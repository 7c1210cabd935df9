import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';

/** Maximum time of a volume at a lost node: Kubernetes detaches it by force after six minutes. */
const maxDetachMs = 6 * 60_000;

/** Resources that the whole cluster lacks at the moment, apart from the troubles of single pods. */
export class NodeConditions {
  readonly #scheduler: Scheduler;
  readonly #random: Random;
  /** No node has room for another pod. */
  full = false;
  /** Pods wait at scheduling gates. */
  gated = false;
  /** No image can be pulled. */
  registryDown = false;
  /** By the uid of the claim: until when its volume is attached to a node that is gone. */
  readonly #attachedUntil = new Map<string, number>();
  /** Whether volumes stay attached to a lost node; false: another node attaches them at once. */
  readonly #detachesLate: boolean;

  constructor({
    scheduler,
    random,
    detachesLate,
  }: {
    readonly scheduler: Scheduler;
    readonly random: Random;
    readonly detachesLate: boolean;
  }) {
    this.#scheduler = scheduler;
    this.#random = random;
    this.#detachesLate = detachesLate;
  }

  /** The node of this volume is gone. */
  lost(claimUid: string): void {
    if (!this.#detachesLate) return;
    const forMs = this.#random.chance(0.5)
      ? this.#random.between(5_000, 60_000)
      : this.#random.between(60_000, maxDetachMs);
    this.#attachedUntil.set(claimUid, this.#scheduler.monotonic() + forMs);
  }

  detachingMs(claimUid: string): number {
    return Math.max(0, (this.#attachedUntil.get(claimUid) ?? 0) - this.#scheduler.monotonic());
  }
}
