import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import { TokenBuckets } from '@conversation-operator/http/limits/rate-limits';
import { type Sandbox, sessionKeyGenerationOf } from '../../resources/sandbox.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { IncomingMessage } from 'node:http';
import type { Response } from 'express';
import { LRUCache } from 'lru-cache';
import type { ClientAddress } from '@conversation-operator/http/limits/client-address';
import { expiryBy } from '../lookup/cache.ts';
import type { Reader } from './session-keys.ts';
import type { Principal } from './key-ring.ts';

/** Minimum time between two log lines about the same secret and reader. */
const repeatMs = 60_000;
/** Reads of one sandbox: an agent reads each secret that a command names, and all at its start. */
const sandboxRate = { perSecond: 20, burst: 200, capacity: 20_000 };
/** Reads of all sandboxes of one owner. */
const ownerRate = { perSecond: 100, burst: 1_000, capacity: 20_000 };

/** One read of the value of a secret; no field has the value. */
export interface SecretRead {
  readonly requestId: string | undefined;
  readonly sandbox: Sandbox;
  readonly secret: string;
  /** Id of the conversation whose agent reads; undefined for other readers. */
  readonly conversation?: string | undefined;
  /** Name of the API key of the reader, or the kind of its credential. */
  readonly by: string;
}

/** The newest of the reads that no log line contains yet, and their number. */
interface Repeats {
  read: SecretRead | undefined;
  count: number;
}

/**
 * Limits how often the secrets of a sandbox are read, and records the reads in the audit log: one
 * line at once for each secret and reader, and for repetitions at most one line a minute, with
 * their number. No read is missing. The rates bound the memory.
 */
export class SecretReads {
  readonly #audit: Logger;
  readonly #clock: Clock;
  readonly #ofSandboxes: TokenBuckets;
  readonly #ofOwners: TokenBuckets;
  /** Secrets and readers with a line in the last minute. */
  readonly #recent = new Map<string, Repeats>();
  #timer: Timer | undefined;

  constructor({ audit, clock }: { readonly audit: Logger; readonly clock: Clock }) {
    this.#audit = audit;
    this.#clock = clock;
    this.#ofSandboxes = new TokenBuckets({ clock, ...sandboxRate });
    this.#ofOwners = new TokenBuckets({ clock, ...ownerRate });
  }

  /** Counts a read before its response. Throws `rate-limited` beyond the rates. */
  admit({ metadata: { uid }, spec: { owner } }: Sandbox): void {
    if (this.#ofSandboxes.take(uid).allowed && this.#ofOwners.take(owner).allowed) return;
    throw new ProblemError('rate-limited', 'The secrets of this sandbox are read too often.', {
      retryAfterSeconds: 1,
    });
  }

  /** Records a read whose response has the value. */
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

  /** Writes the lines of pending repetitions. */
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
      requestId,
      owner,
      sandbox: sandbox.metadata.name,
      ...rest,
      ...more,
    });
  }
}

/** Minimum time between two log lines about the same API key and session key. */
const disclosureRepeatMs = 60 * 60 * 1000;
/** Maximum pairs of an API key and a sandbox in memory; a pair beyond that is logged again. */
const maxRemembered = 20_000;
/** Maximum sandboxes named in a line; more are counted. */
const maxNames = 100;

interface DisclosuresOptions {
  readonly audit: Logger;
  readonly clock: Clock;
  readonly clientAddress: ClientAddress;
}

/**
 * Records in the audit log who was shown which sandboxes' session keys: one line for each response
 * that shows some, but each session key at most once an hour, so that polling writes nothing. None
 * is missing: a reader causes no more lines than there are running sandboxes and rotations, and
 * these have lines of their own already.
 */
export class Disclosures {
  readonly #options: DisclosuresOptions;
  /** Session key generations of the last hour, by UID of the API key and of the sandbox. */
  readonly #recorded: LRUCache<string, { readonly generation: number | undefined }>;

  constructor(options: DisclosuresOptions) {
    this.#options = options;
    this.#recorded = new LRUCache({
      max: maxRemembered,
      ttl: disclosureRepeatMs,
      ...expiryBy(options.clock),
    });
  }

  readerOf(principal: Principal, request: IncomingMessage, response: Response): Reader {
    let shown: string[] | undefined;
    return {
      keyUid: principal.keyUid,
      opensAgents: principal.chain.scopes.has('manage'),
      disclosed: (sandbox) => {
        if (!this.#isNew(principal.keyUid, sandbox)) return;
        if (shown === undefined) {
          shown = [];
          this.#recordAtEnd(shown, principal, request, response);
        }
        shown.push(sandbox.metadata.name);
      },
    };
  }

  /** Returns whether no line of the last hour has this session key, and records it. */
  #isNew(keyUid: string, sandbox: Sandbox): boolean {
    const generation = sessionKeyGenerationOf(sandbox);
    const key = `${keyUid}/${sandbox.metadata.uid}`;
    const last = this.#recorded.get(key);
    if (last !== undefined && last.generation === generation) return false;
    this.#recorded.set(key, { generation });
    return true;
  }

  #recordAtEnd(
    shown: readonly string[],
    { owner, keyName }: Principal,
    request: IncomingMessage,
    response: Response,
  ): void {
    const { audit, clientAddress } = this.#options;
    // The address is read at once, because the connection may end before the response.
    const client = clientAddress(request);
    response.once('close', () => {
      const { requestId, route } = response.locals;
      audit.info('SessionKeyRead', {
        requestId,
        action: route?.operationId,
        owner,
        key: keyName,
        client,
        sandboxes: shown.slice(0, maxNames),
        ...(shown.length > maxNames ? { more: shown.length - maxNames } : {}),
        status: response.headersSent ? response.statusCode : 0,
      });
    });
  }
}
