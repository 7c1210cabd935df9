import { Ledger, type Totals } from '../../quota/ledger.ts';
import type { Slot } from '../../quota/slot.ts';
import type { Snapshot } from '../../quota/snapshot.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { CapExceeded, capExceededMessage } from '../../resources/cap-exceeded.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { startStatusOf, wantsOwnSandbox } from '../../resources/conversation.ts';
import { capsOf, type CapField } from '../../resources/quota-caps.ts';
import { madeForReferenceOf } from '../../resources/sandbox-makers.ts';
import type { Sandbox } from '../../resources/sandbox.ts';

export interface StoredLimitsOptions {
  readonly snapshot: (namespace: string) => Snapshot;
  /**
   * Called after a change of an owner's usage. `isSmall`: only the size of a stored conversation
   * has changed.
   */
  readonly onChange: (
    namespace: string,
    owner: string,
    change: { readonly isSmall: boolean },
  ) => void;
}

/** The reason why a start is refused. */
export interface LimitRefusal {
  readonly code: string;
  readonly message: string;
}

type Counts = Pick<
  NonNullable<ConversationQuota['status']>,
  'conversations' | 'storedBytes' | 'sandboxes'
>;

/**
 * StoredLimits applies the limits of quotas on stored objects to conversations that the gateway has
 * not checked: the conversations that were created last are refused, as far as they are over a
 * limit.
 */
export class StoredLimits {
  readonly #options: StoredLimitsOptions;
  readonly #ledgers = new Map<string, Ledger>();
  /** Uids of the conversations whose starts claim a spare, by the uid of the spare. */
  readonly #claims = new Map<string, string>();

  constructor(options: StoredLimitsOptions) {
    this.#options = options;
  }

  observe(conversation: CachedConversation): void {
    const { deletionTimestamp, uid, name, creationTimestamp } = conversation.metadata;
    this.#change(conversation, (ledger) => {
      if (deletionTimestamp !== undefined) ledger.removeConversation(uid);
      else
        ledger.putConversation({
          ...{ uid, name, owner: conversation.spec.owner },
          createdAt: Date.parse(creationTimestamp),
          bytes: conversation.storedBytes,
          isNew: startStatusOf(conversation) === 'WORKING',
          wantsSandbox: wantsOwnSandbox(conversation),
        });
    });
  }

  forget(conversation: CachedConversation): void {
    this.#change(conversation, (ledger) => ledger.removeConversation(conversation.metadata.uid));
  }

  /** The slot that gets the spare's owner next is for the conversation that claims the spare. */
  claimed({ metadata }: Sandbox, conversation: CachedConversation): void {
    this.#claims.set(metadata.uid, conversation.metadata.uid);
  }

  slotChanged(namespace: string, slot: Slot, isGone: boolean): void {
    const { sandbox, owner, spare } = slot;
    const { uid } = sandbox.metadata;
    // An orphaned slot has a pod and no sandbox.
    if (slot.uid !== uid) return;
    if (isGone || spare) this.#claims.delete(uid);
    const madeFor = madeForReferenceOf(sandbox)?.uid ?? this.#claims.get(uid);
    const ledger = this.#ledger(namespace);
    if (isGone) ledger.removeSandbox(uid);
    else ledger.putSandbox({ uid, owner, counts: slot.stored, madeFor });
    this.#forgetEmpty(namespace);
  }

  /**
   * The reason why the start of a conversation is refused, or undefined. The answer stays the same
   * until it is stored.
   */
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

  /** The present usage of everything that a quota limits. */
  countsFor({ metadata: { namespace }, spec }: ConversationQuota): Counts {
    const snapshot = this.#options.snapshot(namespace);
    const ledger = this.#ledger(namespace);
    const isMine = (name: string, field: CapField): boolean =>
      spec.owner === undefined
        ? snapshot.caps.owners.get(name)?.[field] === undefined
        : name === spec.owner;
    const sum = (field: CapField, total: keyof Totals): number => {
      if (spec.scope === 'Namespace') return ledger.all[total];
      const owners = [...ledger.owners()].filter((name) => isMine(name, field));
      return owners.reduce((all, name) => all + ledger.of(name)[total], 0);
    };
    const sandboxes = (): number => {
      if (spec.scope === 'Namespace') return snapshot.all.load.stored;
      const owners = [...snapshot.owners()].filter(({ name }) => isMine(name, 'maxSandboxes'));
      return owners.reduce((all, { load }) => all + load.stored, 0);
    };
    return {
      ...(spec.maxConversations !== undefined && {
        conversations: sum('maxConversations', 'conversations'),
      }),
      ...(spec.maxStoredBytes !== undefined && {
        storedBytes: sum('maxStoredBytes', 'storedBytes'),
      }),
      ...(spec.maxSandboxes !== undefined && { sandboxes: sandboxes() }),
    };
  }

  /** Makes a change of the ledger on which the usage of a conversation's owner may depend. */
  #change<T>(conversation: CachedConversation, change: (ledger: Ledger) => T): T {
    const { namespace } = conversation.metadata;
    const { owner } = conversation.spec;
    const ledger = this.#ledger(namespace);
    const before = ledger.of(owner);
    const result = change(ledger);
    const now = ledger.of(owner);
    this.#forgetEmpty(namespace);
    const { caps } = this.#options.snapshot(namespace);
    const isLimited = (field: CapField): boolean => capsOf(caps, owner, field).length > 0;
    const hasOther = now.conversations !== before.conversations;
    if (hasOther && (isLimited('maxConversations') || isLimited('maxStoredBytes')))
      this.#options.onChange(namespace, owner, { isSmall: false });
    else if (now.storedBytes !== before.storedBytes && isLimited('maxStoredBytes'))
      this.#options.onChange(namespace, owner, { isSmall: true });
    return result;
  }

  #forgetEmpty(namespace: string): void {
    if (this.#ledgers.get(namespace)?.isEmpty === true) this.#ledgers.delete(namespace);
  }

  #ledger(namespace: string): Ledger {
    let ledger = this.#ledgers.get(namespace);
    if (ledger === undefined) this.#ledgers.set(namespace, (ledger = new Ledger()));
    return ledger;
  }
}
