import type { ServerResponse } from 'node:http';

export interface WaitingAnswersOptions {
  /** Maximum bytes of all answers that wait for their clients to take them; 64 MiB by default. */
  readonly maxBytes?: number;
  /** Maximum bytes of those of one owner; a quarter by default. */
  readonly maxBytesPerOwner?: number;
}

const defaultMaxBytes = 64 * 1024 * 1024;
const ownersShare = 0.25;

interface Owner {
  bytes: number;
  /** With the bytes of each, the one first that has waited longest. */
  readonly answers: Map<ServerResponse, number>;
}

/**
 * Bounds the memory of answers that nobody reads. Each owner has a share: beyond it, the answer of this owner that has waited longest is
 * cut off. Where all owners together have too much, it is an answer of the owner that has most.
 */
export class WaitingAnswers {
  readonly #maxBytes: number;
  readonly #maxBytesPerOwner: number;
  readonly #owners = new Map<string, Owner>();
  /** Answers that are known, waiting or not. */
  readonly #followed = new WeakSet<ServerResponse>();
  #bytes = 0;

  constructor({ maxBytes = defaultMaxBytes, maxBytesPerOwner = maxBytes * ownersShare }: WaitingAnswersOptions = {}) {
    this.#maxBytes = maxBytes;
    this.#maxBytesPerOwner = maxBytesPerOwner;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * For an answer that something was just written to. May be called again for the same one.
   * @param owner Whose client it is for; for a client without a key, something that names the client.
   */
  add(response: ServerResponse, owner: string): void {
    const bytes = response.writableLength;
    if (response.destroyed || (bytes === 0 && !this.#followed.has(response))) return;
    if (!this.#followed.has(response)) {
      this.#followed.add(response);
      const taken = () => this.#set(response, owner, 0);
      response.once('close', taken).on('drain', taken);
    }
    this.#set(response, owner, bytes);
    while (this.#bytesOf(owner) > this.#maxBytesPerOwner) this.#cutOldest(owner);
    while (this.#bytes > this.#maxBytes) this.#cutOldest(this.#largest());
  }

  #bytesOf(owner: string): number {
    return this.#owners.get(owner)?.bytes ?? 0;
  }

  #largest(): string {
    let [largest, most] = ['', -1];
    for (const [owner, { bytes }] of this.#owners) if (bytes > most) [largest, most] = [owner, bytes];
    return largest;
  }

  #cutOldest(owner: string): void {
    const [oldest] = this.#owners.get(owner)?.answers.keys() ?? [];
    if (oldest === undefined) return;
    this.#set(oldest, owner, 0);
    oldest.req.socket.destroy();
  }

  #set(response: ServerResponse, owner: string, bytes: number): void {
    const account = this.#owners.get(owner) ?? { bytes: 0, answers: new Map<ServerResponse, number>() };
    const change = bytes - (account.answers.get(response) ?? 0);
    account.bytes += change;
    this.#bytes += change;
    if (bytes > 0) {
      account.answers.set(response, bytes);
      this.#owners.set(owner, account);
      return;
    }
    account.answers.delete(response);
    if (account.answers.size === 0) this.#owners.delete(owner);
  }
}
