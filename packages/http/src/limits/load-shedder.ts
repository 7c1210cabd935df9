import type { Clock, Timer } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { Shares } from '@conversation-operator/base/shares';
import type { CounterOf } from '@conversation-operator/base/runtime';
import { Refusal } from '../refusal.ts';
import type { RequestKind } from './rate-limits.ts';

const sampleMs = 50;
/** Consecutive late samples that mean overload: one pause, as of a garbage collection, does not. */
const samples = 3;
/**
 * Maximum sockets that the event loop handles in one poll. While as many are ready again, it polls
 * 48 times in a row before it runs a timer or reads another server's response: the process accepts
 * requests, and finishes none.
 */
const maxSocketsPerPoll = 1024;
/**
 * Mean duration from which an owner's writes count as slow, because earlier writes wait for the
 * store. A few concurrent writes use the store's whole capacity as well as many do, and each ends
 * in time.
 */
const slowWriteMs = 1000;
/** Maximum concurrent writes of an owner whose writes are slow. */
const maxSlowWrites = 16;
const maxSlowOwners = 10_000;
/** Weight of one write in the moving average of the duration. */
const smoothing = 0.05;
/** Reads are refused last, because clients take a 503 on a read for the end of what they follow. */
const readsPatience = 4;
const retryAfterSeconds: Readonly<Record<RequestKind, number>> = { reads: 1, writes: 2 };

export interface LoadShedderOptions {
  /** Limits of all requests, and of the writes among them. Shares without a limit refuse none. */
  readonly requests: Shares;
  readonly writes: Shares;
  /** Delay of the event loop beyond which writes are refused, reads at four times; 0: none. */
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

  /** Minimum delay of the latest samples. */
  get delayMs(): number {
    return this.#delays.length < samples ? 0 : Math.min(...this.#delays);
  }

  /** Returns the refusal of a request, cheaply; undefined if `enter` may be called. */
  refusal(kind: RequestKind): Refusal | undefined {
    if (!this.#hasTooMuch(kind)) return undefined;
    this.#sinceTimer += 1;
    return this.#refuse(kind);
  }

  /**
   * Begins a request. Throws `overloaded`, or `share-exceeded` if the owner has too many running
   * requests.
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
      // The loop accepts one connection at a time, so closed ones leave room for running requests.
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
