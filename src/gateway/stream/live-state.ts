import type { StorageCaps } from '../lookup/storage-caps.ts';
import type { Exposure } from '../presenters/sandbox.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { RandomBytes } from '../auth/key.ts';
import type { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import type { Logger } from '@conversation-operator/base/logger';
import type { GatewayOptions } from '../gateway-options.ts';
import { quotaRecord } from '../quota/quota.ts';
import { ResponseCache } from '../presenters/conversation-records.ts';
import { OwnRecords } from './own-records.ts';
import { OwnerHubs } from './owner-hubs.ts';
import { every, type Clock, type Timer } from '@conversation-operator/base/clock';
import type { Freshness } from '@conversation-operator/kube/reflector';

interface StalenessOptions {
  readonly caches: readonly { readonly freshness: Freshness }[];
  readonly clock: Clock;
}

/** Delay between two checks, and the time after which an interruption counts, in milliseconds. */
const checkMs = 1_000;
const staleMs = 10_000;

/**
 * Whether the caches have had no connection to the API server for longer than it takes to connect
 * again, so that a stream would show an old state as the present one.
 */
export class Staleness {
  readonly #options: StalenessOptions;
  readonly #listeners = new Set<() => void>();
  #interruptedAtMs: number | undefined;
  #timer: Timer | undefined;

  constructor(options: StalenessOptions) {
    this.#options = options;
  }

  get isStale(): boolean {
    return (
      this.#interruptedAtMs !== undefined &&
      this.#options.clock.monotonic() - this.#interruptedAtMs >= staleMs
    );
  }

  open(): void {
    this.#timer ??= every(this.#options.clock, checkMs, () => this.#check());
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Calls `listener` when the caches become stale; returns the function that ends this. */
  onStale(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #check(): void {
    if (!this.#options.caches.some(({ freshness }) => freshness.isInterrupted)) {
      this.#interruptedAtMs = undefined;
      return;
    }
    this.#interruptedAtMs ??= this.#options.clock.monotonic();
    if (this.isStale) for (const listener of [...this.#listeners]) listener();
  }
}

/** Dependencies of the state of streams. */
interface LiveStateNeeds {
  readonly namespace: string;
  readonly lookup: ResourceLookup;
  readonly caps: StorageCaps;
  readonly exposure: Exposure;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: RandomBytes;
  readonly scheduler: FairScheduler;
}

/** State that the streams of one gateway share, and the texts of records, which reads use too. */
export type LiveState = ReturnType<typeof createLiveState>;

export function createLiveState(
  needs: LiveStateNeeds,
  { caches, liveStreams = {} }: Pick<GatewayOptions, 'caches' | 'liveStreams'>,
) {
  const { namespace, lookup, caps, exposure, clock, logger, random, scheduler } = needs;
  const responses = new ResponseCache({ lookup, exposure });
  const hubs = new OwnerHubs({
    ...{ caches, namespace, lookup, clock, logger, random },
    recordsOf: (owner) =>
      new OwnRecords({
        ...{ owner, lookup, exposure, responses },
        quota: (whose) => quotaRecord({ lookup, clock, caps }, whose),
      }),
    charge: (owner, work) => scheduler.now(owner, work),
    memory: liveStreams,
  });
  const { conversations, sandboxes } = caches;
  const staleness = new Staleness({ caches: [conversations, sandboxes], clock });
  return { responses, hubs, staleness };
}
