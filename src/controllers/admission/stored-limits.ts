import {
  Ledger,
  cappedTotal,
  type Totals,
  CapExceeded,
  capExceededMessage,
  capReachedMessage,
  capFields,
  capsOf,
  type CapField,
} from '../../quota/caps.ts';
import type { Slot } from '../../quota/slot.ts';
import type { Owner } from '../../quota/owners.ts';
import type { Snapshot } from '../../quota/snapshot.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { startStatusOf, wantsOwnSandbox } from '../../resources/conversation.ts';
import { madeForReferenceOf } from '../../resources/sandbox-owner-references.ts';
import type { Sandbox } from '../../resources/sandbox.ts';

export interface StoredLimitsOptions {
  readonly snapshot: (namespace: string) => Snapshot;
  /** Requests new statuses of an owner's quotas, by default after a short delay. */
  readonly onChange: (namespace: string, owner: string, delayMs?: number) => void;
}

export interface LimitRefusal {
  readonly code: string;
  readonly message: string;
}

type Counts = Pick<
  NonNullable<ConversationQuota['status']>,
  'conversations' | 'storedBytes' | 'sandboxes'
>;

/** Delay after a change of only the stored bytes, which each status write of an agent changes. */
const storedBytesDelayMs = 30_000;

const nameOf = ({ name }: Owner): string => name;

/**
 * Enforces the limits of quotas on stored objects for conversations that the gateway has not
 * checked: it rejects the newest conversations beyond a limit.
 */
export class StoredLimits {
  readonly #options: StoredLimitsOptions;
  readonly #ledgers = new Map<string, Ledger>();
  /** UIDs of the conversations that claim a warm sandbox, by the UID of the sandbox. */
  readonly #claims = new Map<string, string>();

  constructor(options: StoredLimitsOptions) {
    this.#options = options;
  }

  observe(conversation: CachedConversation): void {
    const { deletionTimestamp, uid, name, namespace, creationTimestamp } = conversation.metadata;
    const before = this.#ledger(namespace).ownerOf(uid);
    this.#change(conversation, (ledger) => {
      if (deletionTimestamp !== undefined) ledger.removeConversation(uid);
      else
        ledger.putConversation({
          uid,
          name,
          owner: conversation.spec.owner,
          createdAt: Date.parse(creationTimestamp),
          bytes: conversation.storedBytes,
          isNew: startStatusOf(conversation) === 'WORKING',
          wantsSandbox: wantsOwnSandbox(conversation),
        });
    });
    // A handover changes what the quotas of both owners count.
    if (before !== undefined && before !== conversation.spec.owner)
      this.#options.onChange(namespace, before);
  }

  forget(conversation: CachedConversation): void {
    this.#change(conversation, (ledger) => ledger.removeConversation(conversation.metadata.uid));
  }

  /** Records which conversation claims a warm sandbox, until the claim is stored. */
  claimed({ metadata }: Sandbox, conversation: CachedConversation): void {
    this.#claims.set(metadata.uid, conversation.metadata.uid);
  }

  slotChanged(slot: Slot, { isGone }: { readonly isGone: boolean }): void {
    const { sandbox, owner, warmSandbox } = slot;
    const { namespace, uid } = sandbox.metadata;
    // The slot is that of a deleted sandbox whose pod may still exist.
    if (slot.uid !== uid) return;
    if (isGone || warmSandbox) this.#claims.delete(uid);
    const madeFor = madeForReferenceOf(sandbox)?.uid ?? this.#claims.get(uid);
    this.#changeIn(namespace, (ledger) => {
      if (isGone) ledger.removeSandbox(uid);
      else ledger.putSandbox({ uid, owner, counts: slot.stored, madeFor });
    });
  }

  /** Returns why a start is rejected. The reason stays the same until the status contains it. */
  refusalOf(conversation: CachedConversation): LimitRefusal | undefined {
    const { namespace, uid } = conversation.metadata;
    const { caps } = this.#options.snapshot(namespace);
    const cap = this.#change(conversation, (ledger) => ledger.verdictOn(uid, caps));
    return (
      cap && {
        code: CapExceeded[cap.field],
        message: capExceededMessage(cap.field, cap, cap.current),
      }
    );
  }

  /** The limit that the growth of an owner would exceed, as a sentence; undefined: none. */
  noRoomFor(namespace: string, owner: string, growth: Totals): string | undefined {
    const { caps } = this.#options.snapshot(namespace);
    const cap = this.#ledger(namespace).exceeded(caps, owner, growth);
    return cap && capReachedMessage(cap);
  }

  /** The current use of everything that a quota limits. */
  countsFor({ metadata: { namespace }, spec }: ConversationQuota): Counts {
    const snapshot = this.#options.snapshot(namespace);
    const ledger = this.#ledger(namespace);
    const stored = (total: keyof Totals, owner?: string): number => {
      // The ledger also counts the sandboxes that starts in progress are going to create.
      if (total === 'sandboxes')
        return (owner === undefined ? snapshot.all : snapshot.owner(owner))?.load.stored ?? 0;
      return (owner === undefined ? ledger.all : ledger.of(owner))[total];
    };
    const every = new Set([...ledger.owners(), ...Array.from(snapshot.owners(), nameOf)]);
    const counts = capFields.flatMap((field): readonly (readonly [string, number])[] => {
      const total = cappedTotal[field];
      if (spec[field] === undefined) return [];
      if (spec.scope === 'Namespace') return [[total, stored(total)]];
      const hasNone = (name: string) => snapshot.caps.owners.get(name)?.[field] === undefined;
      const owners = spec.owner === undefined ? [...every].filter(hasNone) : [spec.owner];
      return [[total, owners.reduce((all, name) => all + stored(total, name), 0)]];
    });
    return Object.fromEntries(counts);
  }

  /** Changes the ledger, and enqueues a status update of the quotas whose use may have changed. */
  #change<T>(conversation: CachedConversation, change: (ledger: Ledger) => T): T {
    const { namespace } = conversation.metadata;
    const { owner } = conversation.spec;
    const before = this.#ledger(namespace).of(owner);
    const result = this.#changeIn(namespace, change);
    const now = this.#ledger(namespace).of(owner);
    const { caps } = this.#options.snapshot(namespace);
    const isLimited = (field: CapField): boolean => capsOf(caps, owner, field).length > 0;
    const hasOther = now.conversations !== before.conversations;
    if (hasOther && (isLimited('maxConversations') || isLimited('maxStoredBytes')))
      this.#options.onChange(namespace, owner);
    else if (now.storedBytes !== before.storedBytes && isLimited('maxStoredBytes'))
      this.#options.onChange(namespace, owner, storedBytesDelayMs);
    return result;
  }

  /** Changes the ledger of a namespace, and deletes an empty one. */
  #changeIn<T>(namespace: string, change: (ledger: Ledger) => T): T {
    const ledger = this.#ledger(namespace);
    const result = change(ledger);
    if (ledger.isEmpty) this.#ledgers.delete(namespace);
    else this.#ledgers.set(namespace, ledger);
    return result;
  }

  #ledger(namespace: string): Ledger {
    return this.#ledgers.get(namespace) ?? new Ledger();
  }
}
