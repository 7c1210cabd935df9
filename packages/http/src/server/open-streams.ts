import { Shares, type Release } from '@conversation-operator/kube/shares';
import { shareRefusal } from '../limits/share-refusal.ts';

export interface StreamLimits {
  /** Maximum concurrent streams: of all owners, and of one. */
  readonly total: number;
  readonly perOwner: number;
}

export const defaultStreamLimits: StreamLimits = { total: 2000, perOwner: 250 };

/**
 * Tracks the answers that are still being written, so that a shutdown ends each of them properly.
 */
export class OpenStreams {
  readonly #ends = new Set<() => void>();
  readonly #shares: Shares;
  #closed = false;

  constructor(limits: Partial<StreamLimits> = {}) {
    this.#shares = new Shares({
      ...defaultStreamLimits,
      ...limits,
      refuse: (bound) => shareRefusal(bound, 'streams'),
    });
  }

  get size(): number {
    return this.#ends.size;
  }

  /** Takes a place for one more stream of an owner; throws a refusal where there is none. */
  enter(owner: string): Release {
    return this.#shares.take({ owner });
  }

  /** `end` is called once, on shutdown; at once when that has begun. Returns the remover. */
  add(end: () => void): () => void {
    if (this.#closed) {
      end();
      return () => undefined;
    }
    this.#ends.add(end);
    return () => {
      this.#ends.delete(end);
    };
  }

  close(): void {
    this.#closed = true;
    for (const end of [...this.#ends]) end();
    this.#ends.clear();
  }
}
