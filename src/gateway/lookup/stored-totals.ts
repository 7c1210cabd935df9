import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { isCapExceeded } from '../../resources/cap-exceeded.ts';
import { findCondition } from '../../resources/conditions.ts';
import { awaitsSandbox } from '../../resources/conversation.ts';
import { conversationIdOf, ownSandboxName } from '../../resources/ids.ts';
import { SandboxCondition, type Sandbox } from '../../resources/sandbox.ts';
import type { Caches } from './cache.ts';

/**
 * The objects that an owner, or a namespace, has stored. Objects that are being deleted do not
 * count.
 */
export interface Totals {
  readonly conversations: number;
  /** The bytes of the conversations. */
  readonly storedBytes: number;
  /** The sandboxes, including those that starts under way will get. */
  readonly sandboxes: number;
}

type Kind = 'conversations' | 'sandboxes';

const none: Totals = { conversations: 0, storedBytes: 0, sandboxes: 0 };
const sum = (one: Totals, other: Totals, sign: 1 | -1): Totals => ({
  conversations: one.conversations + sign * other.conversations,
  storedBytes: one.storedBytes + sign * other.storedBytes,
  sandboxes: one.sandboxes + sign * other.sandboxes,
});

const isLive = ({ metadata }: CachedConversation | Sandbox): boolean =>
  metadata.deletionTimestamp === undefined;
const ofConversation = ({ storedBytes }: CachedConversation): Totals => ({
  ...none,
  conversations: 1,
  storedBytes,
});
/** A sandbox that the operator has refused for a limit of these never gets a volume. */
const ofSandbox = ({ status }: Sandbox): Totals =>
  isCapExceeded(findCondition(status?.conditions, SandboxCondition.failed)?.reason)
    ? none
    : { ...none, sandboxes: 1 };

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

export interface StoredTotalsOptions {
  readonly caches: Pick<Caches, Kind>;
  readonly namespace: string;
  readonly clock: Clock;
}

/**
 * Keeps the totals of each owner up to date with every change of the caches, so that no request has
 * to count.
 */
export class StoredTotals {
  readonly #options: StoredTotalsOptions;
  readonly #byOwner = new Map<string, Totals>();
  /** Sandboxes that starts will get, by name, as long as the cache does not show them. */
  readonly #expected = new Map<string, { readonly owner: string; readonly uid: string }>();
  readonly #unseen = new Map<string, () => void>();
  readonly #removers: (() => void)[] = [];
  #all = none;

  constructor(options: StoredTotalsOptions) {
    this.#options = options;
  }

  open(): void {
    const { conversations, sandboxes } = this.#options.caches;
    this.#removers.push(
      sandboxes.addHandler({
        added: (sandbox) => this.#countSandbox(sandbox),
        updated: (sandbox, old) => this.#countSandbox(sandbox, old),
        deleted: (sandbox) => this.#count(undefined, sandbox, ofSandbox),
      }),
      conversations.addHandler({
        added: (conversation) => this.#countConversation(conversation),
        updated: (conversation, old) => this.#countConversation(conversation, old),
        deleted: (conversation) => {
          this.#count(undefined, conversation, ofConversation);
          this.#expect(conversation, false);
        },
      }),
    );
  }

  close(): void {
    for (const remove of this.#removers.splice(0)) remove();
    for (const release of this.#unseen.values()) release();
  }

  of(owner: string): Totals {
    return this.#byOwner.get(owner) ?? none;
  }

  /** The total of all owners. */
  get all(): Totals {
    return this.#all;
  }

  /** Size of a conversation that the cache shows; else 0. */
  bytesOf(conversationName: string): number {
    const { caches, namespace } = this.#options;
    return caches.conversations.store.get(namespace, conversationName)?.storedBytes ?? 0;
  }

  /** Number of owners with stored objects. */
  get size(): number {
    return this.#byOwner.size;
  }

  /** Counts what is about to be stored. */
  reserve(owner: string, growth: Partial<Totals>): Reservation {
    const totals = { ...none, ...growth };
    let isOver = false;
    let timer: Timer | undefined;
    this.#add(owner, totals);
    const release = () => {
      if (isOver) return;
      isOver = true;
      timer?.cancel();
      this.#add(owner, totals, -1);
    };
    return {
      release,
      releaseWhenShown: (kind, name) => {
        const { caches, namespace, clock } = this.#options;
        const key = `${kind}/${name}`;
        const end = () => {
          this.#unseen.delete(key);
          release();
        };
        if (isOver || caches[kind].store.get(namespace, name) !== undefined) {
          release();
          return;
        }
        this.#unseen.set(key, end);
        timer = clock.after(maxReservedMs, end);
      },
    };
  }

  #countConversation(conversation: CachedConversation, old?: CachedConversation): void {
    const { metadata } = conversation;
    if (metadata.namespace !== this.#options.namespace) return;
    this.#count(conversation, old, ofConversation);
    this.#expect(conversation, isLive(conversation) && awaitsSandbox(conversation));
    this.#unseen.get(`conversations/${metadata.name}`)?.();
  }

  #countSandbox(sandbox: Sandbox, old?: Sandbox): void {
    const { metadata } = sandbox;
    if (metadata.namespace !== this.#options.namespace) return;
    this.#count(sandbox, old, ofSandbox);
    this.#forget(metadata.name, sandbox.spec.owner);
    this.#unseen.get(`sandboxes/${metadata.name}`)?.();
  }

  /** Whether the conversation is to get a sandbox of its own that the cache does not show yet. */
  #expect(conversation: CachedConversation, isExpecting: boolean): void {
    const { metadata, spec } = conversation;
    const name = ownSandboxName(conversationIdOf(conversation));
    const isMissing =
      isExpecting &&
      this.#options.caches.sandboxes.store.get(this.#options.namespace, name)?.spec.owner !==
        spec.owner;
    const known = this.#expected.get(name);
    if (isMissing && known === undefined) {
      this.#expected.set(name, { owner: spec.owner, uid: metadata.uid });
      this.#add(spec.owner, { ...none, sandboxes: 1 });
    } else if (!isMissing && known?.uid === metadata.uid) {
      this.#forget(name, spec.owner);
    }
  }

  /** Ends the expectation of a sandbox, unless another owner has taken the name. */
  #forget(expected: string, owner: string): void {
    const known = this.#expected.get(expected);
    if (known?.owner !== owner) return;
    this.#expected.delete(expected);
    this.#add(known.owner, { ...none, sandboxes: -1 });
  }

  /** Counts an object in the place of what the cache had of it before. */
  #count<T extends CachedConversation | Sandbox>(
    object: T | undefined,
    old: T | undefined,
    totalsOf: (live: T) => Totals,
  ): void {
    const isCounted = (one: T | undefined): one is T =>
      // A spare of a pool counts once a start has claimed it.
      one?.metadata.namespace === this.#options.namespace && isLive(one) && one.spec.owner !== '';
    if (isCounted(old)) this.#add(old.spec.owner, totalsOf(old), -1);
    if (isCounted(object)) this.#add(object.spec.owner, totalsOf(object));
  }

  #add(owner: string, totals: Totals, sign: 1 | -1 = 1): void {
    this.#all = sum(this.#all, totals, sign);
    const own = sum(this.of(owner), totals, sign);
    if (own.conversations === 0 && own.storedBytes === 0 && own.sandboxes === 0)
      this.#byOwner.delete(owner);
    else this.#byOwner.set(owner, own);
  }
}
