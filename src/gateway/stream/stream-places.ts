import { shareRefusal } from '@conversation-operator/http/limits/share-refusal';
import type { Clock } from '@conversation-operator/kube/clock';
import { Shares, type Bound, type Release } from '@conversation-operator/kube/shares';
import { defaultStreamPlaces, type StreamPlacesLimits } from './limits.ts';

const what = 'live streams';
/** Maximum snapshots that are sent at once: each has a part in memory until its client reads it. */
const snapshots = { total: 32, perOwner: 4 } as const;

/** The places of open streams, so that no key, no owner and not all of them together open too many. */
export class StreamPlaces {
  readonly #ofOwners: Shares;
  readonly #ofKeys: Shares;
  readonly #ofSnapshots: Shares;

  constructor(clock: Clock, limits: Partial<StreamPlacesLimits> = {}) {
    const { total, perOwner, perKey } = { ...defaultStreamPlaces, ...limits };
    const refuse = (bound: Bound) => shareRefusal(bound, 'snapshots');
    this.#ofSnapshots = new Shares({
      ...{ ...snapshots, refuse },
      // Every open stream may wait, as long as the stream is open.
      waiting: { clock, maxMs: Infinity, total, perOwner },
    });
    this.#ofOwners = new Shares({ total, perOwner, refuse: (bound) => shareRefusal(bound, what) });
    this.#ofKeys = new Shares({
      total: Infinity,
      perOwner: perKey,
      refuse: () => shareRefusal('owner', what),
    });
  }

  /** Takes a place for one more stream; throws a refusal where there is none. */
  enter(owner: string, keyUid: string): Release {
    const leaveKey = this.#ofKeys.take({ owner: keyUid });
    try {
      const leaveOwner = this.#ofOwners.take({ owner });
      return () => {
        leaveKey();
        leaveOwner();
      };
    } catch (error) {
      leaveKey();
      throw error;
    }
  }

  /** Resolves when a snapshot may be sent. Rejects with the reason of the signal. */
  beginSnapshot(owner: string, signal: AbortSignal): Promise<Release> {
    return this.#ofSnapshots.wait({ owner }, { signal });
  }
}
