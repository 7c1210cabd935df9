import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import { TokenBuckets } from '@conversation-operator/http/limits/rate-limits';
import type { Sandbox } from '../../resources/sandbox.ts';
import { ProblemError } from '../errors/problem-error.ts';

/** Delay between two lines about the same secret and reader. */
const repeatMs = 60_000;
/** Reads of one sandbox: an agent reads each secret that a command names, and all at its start. */
const sandboxRate = { perSecond: 20, burst: 200, capacity: 20_000 };
/** Reads of all sandboxes of one owner. */
const ownerRate = { perSecond: 100, burst: 1_000, capacity: 20_000 };

/** One read of the value of a secret; no field has the value. */
export interface SecretRead {
  readonly requestId: string | undefined;
  readonly sandbox: Sandbox;
  /** Name of the secret. */
  readonly secret: string;
  /** Id of the conversation whose agent reads; undefined for other readers. */
  readonly conversation?: string | undefined;
  /** Name of the API key of the reader, or the kind of its credential. */
  readonly by: string;
}

/** The newest of the reads that no line contains yet, and their number. */
interface Repeats {
  read: SecretRead | undefined;
  count: number;
}

/**
 * Limits how often the secrets of a sandbox are read, and records the reads in the audit: a line at
 * once for each secret and reader, and for their repetitions at most one line a minute, with their
 * number. No read is left out. The rates bound the memory.
 */
export class SecretReads {
  readonly #audit: Logger;
  readonly #clock: Clock;
  readonly #ofSandboxes: TokenBuckets;
  readonly #ofOwners: TokenBuckets;
  /** By the secret and its reader: those with a line in the last minute. */
  readonly #recent = new Map<string, Repeats>();
  #timer: Timer | undefined;

  constructor({ audit, clock }: { readonly audit: Logger; readonly clock: Clock }) {
    this.#audit = audit;
    this.#clock = clock;
    this.#ofSandboxes = new TokenBuckets({ clock, ...sandboxRate });
    this.#ofOwners = new TokenBuckets({ clock, ...ownerRate });
  }

  /** Counts a read before it is answered. Throws `rate-limited` beyond the rates. */
  admit({ metadata: { uid }, spec: { owner } }: Sandbox): void {
    if (this.#ofSandboxes.take(uid).allowed && this.#ofOwners.take(owner).allowed) return;
    throw new ProblemError('rate-limited', 'The secrets of this sandbox are read too often.', {
      retryAfterSeconds: 1,
    });
  }

  /** Records a read whose answer has the value. */
  record(read: SecretRead): void {
    const { sandbox, conversation, secret, by } = read;
    const key = JSON.stringify([sandbox.metadata.uid, conversation, secret, by]);
    const repeats = this.#recent.get(key);
    if (repeats === undefined) {
      this.#recent.set(key, { read: undefined, count: 0 });
      this.#write(read);
      this.#timer ??= this.#clock.after(repeatMs, () => this.#minute());
    } else {
      repeats.read = read;
      repeats.count += 1;
    }
  }

  /** Writes the lines of repetitions that are left. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const repeats of this.#recent.values()) this.#writeRepeats(repeats);
    this.#recent.clear();
  }

  #minute(): void {
    for (const [key, repeats] of this.#recent)
      if (!this.#writeRepeats(repeats)) this.#recent.delete(key);
    this.#timer =
      this.#recent.size === 0 ? undefined : this.#clock.after(repeatMs, () => this.#minute());
  }

  /** Returns whether there were any. */
  #writeRepeats(repeats: Repeats): boolean {
    const { read, count } = repeats;
    if (read === undefined) return false;
    this.#write(read, { repeats: count });
    repeats.read = undefined;
    repeats.count = 0;
    return true;
  }

  #write({ requestId, sandbox, ...rest }: SecretRead, more: object = {}): void {
    const { owner } = sandbox.spec;
    this.#audit.info('SecretRead', {
      ...{ requestId, owner, sandbox: sandbox.metadata.name },
      ...rest,
      ...more,
    });
  }
}
