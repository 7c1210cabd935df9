import type { Clock } from '@conversation-operator/base/clock';
import {
  Ledger,
  type CapUse,
  type Totals,
  isCapExceeded,
  quotaCaps,
  type CapField,
} from '../../quota/caps.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { findCondition } from '../../resources/conditions.ts';
import { wantsOwnSandbox } from '../../resources/conversation.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { madeForReferenceOf } from '../../resources/sandbox-makers.ts';
import { SandboxCondition, type Sandbox } from '../../resources/sandbox.ts';
import type { ProblemCode } from '../errors/catalogue.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { type Caches, Derived } from './cache.ts';

type Kind = 'conversations' | 'sandboxes';

/** The problem of a request beyond each limit, and the unit in its text. */
const capKinds = {
  maxConversations: { problem: 'conversation-limit-exceeded', unit: 'conversations' },
  maxStoredBytes: { problem: 'stored-bytes-limit-exceeded', unit: 'bytes of conversations' },
  maxSandboxes: { problem: 'sandbox-limit-exceeded', unit: 'sandboxes' },
} as const satisfies Record<CapField, { problem: ProblemCode; unit: string }>;
/** The problems that may refuse one more start, or a message. */
export const capProblems = Object.values(capKinds).map(({ problem }) => problem);

/** A reservation counts as stored before its object is. */
export interface Reservation {
  /** Ends the reservation. Further calls do nothing. */
  release(): void;
  /**
   * Ends the reservation as soon as the cache shows the object, which then counts itself; after one
   * minute at the latest.
   */
  releaseWhenShown(kind: Kind, name: string): void;
}

/**
 * Maximum lifetime of a reservation. A cache that does not show the object by then has lost its
 * watch, and lists again.
 */
const maxReservedMs = 60_000;

export interface StorageCapsOptions {
  readonly caches: Pick<Caches, Kind>;
  readonly namespace: string;
  readonly clock: Clock;
  /** The quotas of the namespace; the same array as long as they do not change. */
  readonly quotas: () => readonly ConversationQuota[];
}

/**
 * The limits that the quotas of a namespace set on stored objects, and what is stored under them.
 * Every change of the caches is counted at once, so that no request has to count. The operator
 * refuses objects that pass no gateway.
 */
export class StorageCaps {
  readonly #options: StorageCapsOptions;
  readonly #ledger = new Ledger();
  /** The ends of reservations by the object that the cache does not show yet. */
  readonly #unseen = new Map<string, () => void>();
  readonly #removers: (() => void)[] = [];
  readonly #caps = new Derived((quotas: readonly ConversationQuota[]) => quotaCaps(quotas));

  constructor(options: StorageCapsOptions) {
    this.#options = options;
  }

  open(): void {
    const { conversations, sandboxes } = this.#options.caches;
    const seen = (conversation: CachedConversation): void => this.#seenConversation(conversation);
    const seenSandbox = (sandbox: Sandbox): void => this.#seenSandbox(sandbox);
    this.#removers.push(
      conversations.addHandler({
        added: seen,
        updated: seen,
        deleted: ({ metadata }) => this.#ledger.removeConversation(metadata.uid),
      }),
      sandboxes.addHandler({
        added: seenSandbox,
        updated: seenSandbox,
        deleted: ({ metadata }) => this.#ledger.removeSandbox(metadata.uid),
      }),
    );
  }

  close(): void {
    for (const remove of this.#removers.splice(0)) remove();
    for (const release of this.#unseen.values()) release();
  }

  /** The totals of an owner. */
  stored(owner: string): Totals {
    return this.#ledger.of(owner);
  }

  /** The totals of all owners. */
  get all(): Totals {
    return this.#ledger.all;
  }

  /** Size of a conversation that the cache shows; else 0. */
  bytesOf(conversationName: string): number {
    const { caches, namespace } = this.#options;
    return caches.conversations.store.get(namespace, conversationName)?.storedBytes ?? 0;
  }

  /** Every limit that holds for an owner. */
  of(owner: string): readonly CapUse[] {
    return this.#ledger.usesOf(this.#caps.of(this.#options.quotas()), owner);
  }

  /**
   * Counts what is about to be stored. Throws where a limit has no room for it; what is stored
   * already is never refused.
   */
  reserve(owner: string, growth: Partial<Totals>): Reservation {
    const caps = this.#caps.of(this.#options.quotas());
    const exceeded = this.#ledger.exceeded(caps, owner, growth);
    if (exceeded !== undefined) throw problemOf(exceeded);
    const release = this.#ledger.reserve(owner, growth);
    return { release, releaseWhenShown: (kind, name) => this.#whenShown(kind, name, release) };
  }

  /**
   * Counts what a write is about to store, as `reserve` does; a write that fails stores nothing.
   * @returns The result of the write. The caller releases the reservation when the caches show it.
   */
  async during<T>(
    owner: string,
    growth: Partial<Totals>,
    write: () => Promise<T>,
  ): Promise<{ readonly written: T; readonly reservation: Reservation }> {
    const reservation = this.reserve(owner, growth);
    try {
      return { written: await write(), reservation };
    } catch (error) {
      reservation.release();
      throw error;
    }
  }

  #whenShown(kind: Kind, name: string, release: () => void): void {
    const { caches, namespace, clock } = this.#options;
    if (caches[kind].store.get(namespace, name) !== undefined) {
      release();
      return;
    }
    const key = `${kind}/${name}`;
    const end = (): void => {
      timer.cancel();
      this.#unseen.delete(key);
      release();
    };
    const timer = clock.after(maxReservedMs, end);
    this.#unseen.set(key, end);
  }

  #seenConversation(conversation: CachedConversation): void {
    const { metadata, spec, storedBytes } = conversation;
    const { uid, name } = metadata;
    if (metadata.namespace !== this.#options.namespace) return;
    if (metadata.deletionTimestamp !== undefined) this.#ledger.removeConversation(uid);
    else
      this.#ledger.putConversation({
        uid,
        name,
        owner: spec.owner,
        createdAt: 0,
        bytes: storedBytes,
        isNew: false,
        wantsSandbox: wantsOwnSandbox(conversation),
      });
    this.#unseen.get(`conversations/${name}`)?.();
  }

  #seenSandbox(sandbox: Sandbox): void {
    const { metadata, spec, status } = sandbox;
    if (metadata.namespace !== this.#options.namespace) return;
    const failure = findCondition(status?.conditions, SandboxCondition.failed)?.reason;
    this.#ledger.putSandbox({
      uid: metadata.uid,
      owner: spec.owner,
      // A sandbox that the operator has refused for a limit of these never gets a volume.
      counts: metadata.deletionTimestamp === undefined && !isCapExceeded(failure),
      madeFor: madeForReferenceOf(sandbox)?.uid,
    });
    this.#unseen.get(`sandboxes/${metadata.name}`)?.();
  }
}

function problemOf({ field, scope, limit, current }: CapUse): ProblemError {
  const { problem, unit } = capKinds[field];
  const whose = scope === 'Owner' ? 'You have' : 'All owners together have';
  return new ProblemError(
    problem,
    `${whose} ${current} ${unit}, and at most ${limit} may be stored. Delete conversations or sandboxes that are not needed.`,
    { usage: { limit, current } },
  );
}
