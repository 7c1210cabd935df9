import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { Writable } from 'node:stream';

export interface ClientPaceOptions {
  readonly clock: Pick<Clock, 'after' | 'monotonic'>;
  /** Returns the bytes that the client has received or sent so far. */
  readonly moved: () => number;
  /** Called once if the client is too slow. */
  readonly tooSlow: () => void;
  /** Minimum rate; 32 KiB a second by default. */
  readonly minBytesPerSecond?: number;
  /** Period over which the rate is measured, in milliseconds; 30 s by default. */
  readonly periodMs?: number;
}

/** The rate counts only if the server waits for the client in at least this part of a period. */
const waitingPart = 0.9;

/**
 * Detects clients that read a response or send a body too slowly, while others wait for a permit.
 * With an idle timeout alone, a client could keep a permit by sending one byte at a time. Only time
 * in which the server waits for the client counts.
 */
export class ClientPace {
  readonly #options: ClientPaceOptions;
  readonly #periodMs: number;
  #timer: Timer;
  #movedBefore: number;
  #waitedMs = 0;
  /** Monotonic time since which the transfer waits for the client; undefined if it does not. */
  #waitingSinceMs: number | undefined;

  constructor(options: ClientPaceOptions) {
    this.#options = options;
    this.#periodMs = options.periodMs ?? 30_000;
    this.#movedBefore = options.moved();
    this.#timer = options.clock.after(this.#periodMs, this.#judge);
  }

  /** Counts the duration of `wait` as waiting for the client. */
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
  /** Maximum unread bytes of all responses; 64 MiB by default. */
  readonly maxBytes?: number;
  /** Maximum unread bytes of one owner's responses; a quarter of `maxBytes` by default. */
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
  /** Unread responses; the first one has waited longest. */
  readonly answers: Map<Unread, Waiting>;
}

/**
 * Bounds the memory of unread responses and forwarded bytes. Beyond an owner's limit, the guard
 * closes the owner's stream that has waited longest. Beyond the limit of all owners, the guard does
 * this for the owner with most bytes.
 */
export class SlowReaderGuard {
  readonly #maxBytes: number;
  readonly #maxBytesPerOwner: number;
  readonly #owners = new Map<string, Owner>();
  /** Streams whose events `close` and `drain` the guard listens to. */
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
   * Counts the unread bytes of a stream. The caller calls this method after each write.
   * @param owner Owner of the client, or an identifier of a client without a key.
   * @param close Ends the stream's connection.
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
