import type { Writable } from 'node:stream';

export interface SlowReaderGuardOptions {
  /** Maximum unread bytes of all answers; 64 MiB by default. */
  readonly maxBytes?: number;
  /** Maximum unread bytes of the answers of one owner; a quarter of `maxBytes` by default. */
  readonly maxBytesPerOwner?: number;
}

/** An answer, or another stream to a client or an upstream. */
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
