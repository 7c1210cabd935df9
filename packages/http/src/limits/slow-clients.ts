import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { Writable } from 'node:stream';

export interface ClientPaceOptions {
  readonly clock: Pick<Clock, 'after' | 'monotonic'>;
  /** Bytes that the client has taken, or sent, so far. */
  readonly moved: () => number;
  /** Called once, where the client is too slow. */
  readonly tooSlow: () => void;
  /** Minimum rate; 32 KiB a second by default. */
  readonly minBytesPerSecond?: number;
  /** Period of which the rate is judged, in milliseconds; 30 s by default. */
  readonly periodMs?: number;
}

/**
 * Part of a period in which the transfer has waited for its client, so that the rate is its own.
 */
const waitingPart = 0.9;

/**
 * Judges how fast a client reads a long response, or sends a long body, which holds a place that
 * others wait for. A timeout alone would let a client keep the place by one byte at a time. A
 * transfer that waits for something else than its client may be as slow as that.
 */
export class ClientPace {
  readonly #options: ClientPaceOptions;
  readonly #periodMs: number;
  #timer: Timer;
  #movedBefore: number;
  #waitedMs = 0;
  /** Time since which the transfer waits for its client; undefined while it does not. */
  #waitingSinceMs: number | undefined;

  constructor(options: ClientPaceOptions) {
    this.#options = options;
    this.#periodMs = options.periodMs ?? 30_000;
    this.#movedBefore = options.moved();
    this.#timer = options.clock.after(this.#periodMs, this.#judge);
  }

  /** Waits for the client within `wait`. */
  async during<T>(wait: () => Promise<T>): Promise<T> {
    this.#waitingSinceMs = this.#options.clock.monotonic();
    try {
      return await wait();
    } finally {
      this.#count();
      this.#waitingSinceMs = undefined;
    }
  }

  end(): void {
    this.#timer.cancel();
  }

  #count(): void {
    if (this.#waitingSinceMs === undefined) return;
    const now = this.#options.clock.monotonic();
    this.#waitedMs += now - this.#waitingSinceMs;
    this.#waitingSinceMs = now;
  }

  #judge = (): void => {
    const { clock, moved, tooSlow, minBytesPerSecond = 32 * 1024 } = this.#options;
    this.#count();
    const bytes = moved() - this.#movedBefore;
    if (
      this.#waitedMs >= this.#periodMs * waitingPart &&
      bytes < (minBytesPerSecond * this.#waitedMs) / 1000
    ) {
      tooSlow();
      return;
    }
    this.#movedBefore += bytes;
    this.#waitedMs = 0;
    this.#timer = clock.after(this.#periodMs, this.#judge);
  };
}

interface SlowReaderGuardOptions {
  /** Maximum unread bytes of all answers; 64 MiB by default. */
  readonly maxBytes?: number;
  /** Maximum unread bytes of the answers of one owner; a quarter of `maxBytes` by default. */
  readonly maxBytesPerOwner?: number;
}

export type Unread = Pick<Writable, 'writableLength' | 'destroyed' | 'on' | 'once'>;

const defaultMaxBytes = 64 * 1024 * 1024;
const ownersShare = 0.25;

interface Waiting {
  readonly bytes: number;
  readonly close: () => void;
}

interface Owner {
  bytes: number;
  /** Unread answers; the first one has waited longest. */
  readonly answers: Map<Unread, Waiting>;
}

/**
 * Bounds the memory of responses, and of forwarded bytes, that are not read. Each owner has a
 * share: beyond it, the guard closes the stream of this owner that has waited longest. Beyond the
 * limit of all owners, it closes a stream of the owner with most bytes.
 */
export class SlowReaderGuard {
  readonly #maxBytes: number;
  readonly #maxBytesPerOwner: number;
  readonly #owners = new Map<string, Owner>();
  /** Answers with listeners, whether they have unread bytes or not. */
  readonly #followed = new WeakSet<Unread>();
  #bytes = 0;

  constructor({
    maxBytes = defaultMaxBytes,
    maxBytesPerOwner = maxBytes * ownersShare,
  }: SlowReaderGuardOptions = {}) {
    this.#maxBytes = maxBytes;
    this.#maxBytesPerOwner = maxBytesPerOwner;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Counts the unread bytes of a stream after a write to it. The caller calls it after each write.
   * @param owner Whose client it is for; for a client without a key, something that names the
   * client.
   * @param close Ends its connection.
   */
  add(stream: Unread, owner: string, close: () => void): void {
    const bytes = stream.writableLength;
    if (stream.destroyed || (bytes === 0 && !this.#followed.has(stream))) return;
    if (!this.#followed.has(stream)) {
      this.#followed.add(stream);
      const taken = () => this.#set(stream, owner, undefined);
      stream.once('close', taken).on('drain', taken);
    }
    this.#set(stream, owner, { bytes, close });
    while (this.#bytesOf(owner) > this.#maxBytesPerOwner) this.#closeOldest(owner);
    while (this.#bytes > this.#maxBytes) this.#closeOldest(this.#largest());
  }

  #bytesOf(owner: string): number {
    return this.#owners.get(owner)?.bytes ?? 0;
  }

  #largest(): string {
    let [largest, most] = ['', -1];
    for (const [owner, { bytes }] of this.#owners)
      if (bytes > most) [largest, most] = [owner, bytes];
    return largest;
  }

  #closeOldest(owner: string): void {
    const [oldest] = this.#owners.get(owner)?.answers ?? [];
    if (oldest === undefined) return;
    const [stream, { close }] = oldest;
    this.#set(stream, owner, undefined);
    close();
  }

  #set(stream: Unread, owner: string, waiting: Waiting | undefined): void {
    const account = this.#owners.get(owner) ?? { bytes: 0, answers: new Map<Unread, Waiting>() };
    const change = (waiting?.bytes ?? 0) - (account.answers.get(stream)?.bytes ?? 0);
    account.bytes += change;
    this.#bytes += change;
    if (waiting === undefined || waiting.bytes === 0) account.answers.delete(stream);
    else account.answers.set(stream, waiting);
    if (account.answers.size === 0) this.#owners.delete(owner);
    else this.#owners.set(owner, account);
  }
}
