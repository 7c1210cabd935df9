import { shareRefusal } from '@conversation-operator/http/limits/share-refusal';
import { Shares, type Release } from '@conversation-operator/kube/shares';
import { defaultStreamPlaces, type StreamPlacesLimits } from './limits.ts';

const what = 'live streams';

/** The places of open streams, so that no key, no owner and not all of them together open too many. */
export class StreamPlaces {
  readonly #ofOwners: Shares;
  readonly #ofKeys: Shares;

  constructor(limits: Partial<StreamPlacesLimits> = {}) {
    const { total, perOwner, perKey } = { ...defaultStreamPlaces, ...limits };
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
}
