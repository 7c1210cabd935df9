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
import { madeForReferenceOf } from '../../resources/sandbox-owner-references.ts';
import { SandboxCondition, type Sandbox } from '../../resources/sandbox.ts';
import type { ProblemCode } from '../errors/catalogue.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { type Caches, Derived } from './cache.ts';

type Kind = 'conversations' | 'sandboxes';

/** The problem code of each limit of a quota, and the unit in its message. */
const capKinds = {
  maxConversations: { problem: 'conversation-limit-exceeded', unit: 'conversations' },
  maxStoredBytes: { problem: 'stored-bytes-limit-exceeded', unit: 'bytes of conversations' },
  maxSandboxes: { problem: 'sandbox-limit-exceeded', unit: 'sandboxes' },
} as const satisfies Record<CapField, { problem: ProblemCode; unit: string }>;
/** The problems that may reject one more start, or a message. */
export const capProblems = Object.values(capKinds).map(({ problem }) => problem);

export interface StorageCapsOptions {
  readonly caches: Pick<Caches, Kind>;
  readonly namespace: string;
  /** The quotas of the namespace; the same array until one of the quotas changes. */
  readonly quotas: () => readonly ConversationQuota[];
}

/**
 * The limits of a namespace's quotas on stored objects, and their current use. Each change in the
 * caches updates the use, so that no request has to count. The operator enforces the limits on
 * objects that no gateway creates.
 */
export class StorageCaps {
  readonly #options: StorageCapsOptions;
  readonly #ledger = new Ledger();
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
  }

  stored(owner: string): Totals {
    return this.#ledger.of(owner);
  }

  get all(): Totals {
    return this.#ledger.all;
  }

  /** Bytes of a conversation; 0 if the cache does not show the conversation. */
  bytesOf(conversationName: string): number {
    const { caches, namespace } = this.#options;
    return caches.conversations.store.get(namespace, conversationName)?.storedBytes ?? 0;
  }

  /** Every limit that applies to an owner, with its current use. */
  of(owner: string): readonly CapUse[] {
    return this.#ledger.usesOf(this.#caps.of(this.#options.quotas()), owner);
  }

  /**
   * Runs a write, and counts `growth` until the write ends. `write` must wait until the cache shows
   * its object, because the cached object counts from then on. Throws before the write if `growth`
   * would exceed a limit.
   */
  async during<T>(owner: string, growth: Partial<Totals>, write: () => Promise<T>): Promise<T> {
    const exceeded = this.#ledger.exceeded(this.#caps.of(this.#options.quotas()), owner, growth);
    if (exceeded !== undefined) throw problemOf(exceeded);
    const release = this.#ledger.reserve(owner, growth);
    try {
      return await write();
    } finally {
      release();
    }
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
  }

  #seenSandbox(sandbox: Sandbox): void {
    const { metadata, spec, status } = sandbox;
    if (metadata.namespace !== this.#options.namespace) return;
    const failure = findCondition(status?.conditions, SandboxCondition.failed)?.reason;
    this.#ledger.putSandbox({
      uid: metadata.uid,
      owner: spec.owner,
      // A sandbox that the operator has rejected for a limit gets no volume, so it does not count.
      counts: metadata.deletionTimestamp === undefined && !isCapExceeded(failure),
      madeFor: madeForReferenceOf(sandbox)?.uid,
    });
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
