import type { Clock, Timer } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { Shares } from '@conversation-operator/base/shares';
import type { CounterOf } from '@conversation-operator/base/runtime';
import { Refusal } from '../refusal.ts';
import type { RequestKind } from './rate-limits.ts';

const sampleMs = 50;
/** Number of consecutive late samples that mean overload. One alone may be garbage collection. */
const samples = 3;
/**
 * Maximum sockets that the event loop of libuv handles in one poll. While 1024 sockets are ready
 * each time, the loop polls up to 48 times before it runs a timer or reads another server's
 * response: the process accepts requests, and finishes none.
 */
const maxSocketsPerPoll = 1024;
/**
 * Mean duration above which an owner's writes count as slow, because they queue for the store. A
 * few concurrent writes use the store's capacity as well as many do, and each one ends in time.
 */
const slowWriteMs = 1000;
/** Maximum concurrent writes of an owner whose writes are slow. */
const maxSlowWrites = 16;
const maxSlowOwners = 10_000;
/** Weight of one write in the moving average of the durations. */
const smoothing = 0.05;
/** Factor by which reads tolerate a longer delay: some clients stop polling after a 503. */
const readsPatience = 4;
const retryAfterSeconds: Readonly<Record<RequestKind, number>> = { reads: 1, writes: 2 };

export interface LoadShedderOptions {
  /** Semaphores for all requests, and for the writes among them; `Infinity` as total: no limit. */
  readonly requests: Shares;
  readonly writes: Shares;
  /** Event loop delay beyond which writes are refused; for reads, four times this. 0: no limit. */
  readonly maxDelayMs?: number | undefined;
  readonly clock: Clock;
  readonly metrics: { readonly shedRequests: CounterOf<'kind'> };
}

/** Refuses work that would be answered too late, so that accepted work is answered in time. */
export class LoadShedder {
  readonly #options: LoadShedderOptions;
  readonly #maxDelayMs: number;
  readonly #delays: number[] = [];
  #timer: Timer | undefined;
  #dueMs = Infinity;
  #sinceTimer = 0;
  /** Mean duration of the writes of each owner, in milliseconds. */
  readonly #writeMs = recentlyUsed<number>(maxSlowOwners);

  constructor(options: LoadShedderOptions) {
    this.#options = options;
    this.#maxDelayMs = options.maxDelayMs || Infinity;
  }

  start(): void {
    if (this.#maxDelayMs === Infinity) return;
    const due = this.#options.clock.monotonic() + sampleMs;
    this.#dueMs = due;
    this.#sinceTimer = 0;
    this.#timer = this.#options.clock.after(sampleMs, () => {
      this.#delays.push(Math.max(0, this.#options.clock.monotonic() - due));
      if (this.#delays.length > samples) this.#delays.shift();
      this.start();
    });
  }

  stop(): void {
    this.#timer?.cancel();
  }

  get underWay(): number {
    return this.#options.requests.inUse;
  }

  /** Minimum event loop delay of the latest samples; 0 until there are enough samples. */
  get delayMs(): number {
    return this.#delays.length < samples ? 0 : Math.min(...this.#delays);
  }

  /** Returns a refusal under overload, faster than `enter`. If undefined, call `enter` next. */
  refusal(kind: RequestKind): Refusal | undefined {
    if (!this.#hasTooMuch(kind)) return undefined;
    this.#sinceTimer += 1;
    return this.#refuse(kind);
  }

  /**
   * Begins a request. Throws `overloaded`, or `share-exceeded` for an owner with too many requests.
   * @returns A function that ends the request. Further calls of it do nothing.
   */
  enter(owner: string, kind: RequestKind): () => void {
    const isWrite = kind === 'writes';
    this.#sinceTimer += 1;
    if (this.#hasTooMuch(kind)) throw this.#refuse(kind);
    if (isWrite && this.#areWritesSlow(owner) && this.#options.writes.of(owner) >= maxSlowWrites)
      throw this.#options.writes.refusal('owner');
    const leave = this.#options.requests.take({ owner });
    if (!isWrite) return leave;
    let endWrite: () => void;
    try {
      endWrite = this.#options.writes.take({ owner });
    } catch (error) {
      leave();
      throw error;
    }
    const beganMs = this.#options.clock.monotonic();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      leave();
      endWrite();
      const averageMs = this.#writeMs.get(owner) ?? 0;
      this.#writeMs.set(
        owner,
        averageMs + smoothing * (this.#options.clock.monotonic() - beganMs - averageMs),
      );
    };
  }

  #hasTooMuch(kind: RequestKind): boolean {
    const isWrite = kind === 'writes';
    const room = this.#options[isWrite ? 'writes' : 'requests'].total;
    const patience = isWrite ? this.#maxDelayMs : this.#maxDelayMs * readsPatience;
    return this.underWay >= room || this.#isStarved || this.delayMs > patience;
  }

  #refuse(kind: RequestKind): Refusal {
    this.#options.metrics.shedRequests.inc({ kind });
    return new Refusal('overloaded', 'The service has too much to do at the moment. Try again.', {
      // A client whose connection is closed has to connect again. Meanwhile, running requests end.
      headers: {
        'retry-after': String(retryAfterSeconds[kind]),
        ...(this.#isStarved ? { connection: 'close' } : {}),
      },
    });
  }

  get #isStarved(): boolean {
    return (
      this.#sinceTimer > maxSocketsPerPoll &&
      this.#options.clock.monotonic() - this.#dueMs > this.#maxDelayMs
    );
  }

  #areWritesSlow(owner: string): boolean {
    return (
      this.#options.requests.total !== Infinity && (this.#writeMs.get(owner) ?? 0) > slowWriteMs
    );
  }
}
