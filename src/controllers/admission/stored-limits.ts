import { byMaker, makerKeyOf, type Stores } from '../caches.ts';
import { StoredUsage, type StoredConversation, type Usage } from '../../quota/stored-usage.ts';
import { CapExceeded, capExceededMessage } from '../../resources/cap-exceeded.ts';
import { isStartOver, startStatusOf } from '../../resources/conversation.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { capFields, capsOf, type CapField } from '../../resources/quota-caps.ts';
import type { Snapshot } from '../../quota/snapshot.ts';

export interface StoredLimitsOptions {
  readonly stores: Pick<Stores, 'sandboxes'>;
  readonly queue: (namespace: string) => Snapshot;
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

/** An amount for each field that a quota limits. */
type Totals = Readonly<Record<CapField, number>>;

/**
 * StoredLimits applies the limits of quotas on stored objects to conversations that the gateway has
 * not checked: the conversations that were created last are refused, as far as they are over a
 * limit.
 */
export class StoredLimits {
  readonly #options: StoredLimitsOptions;
  readonly #namespaces = new Map<string, StoredUsage<LimitRefusal>>();

  constructor(options: StoredLimitsOptions) {
    this.#options = options;
  }

  observe(conversation: CachedConversation): void {
    const { namespace, deletionTimestamp, uid } = conversation.metadata;
    const usage = this.#usage(namespace);
    const before = usage.owner(conversation.spec.owner);
    if (deletionTimestamp === undefined) usage.put(this.#stored(conversation));
    else usage.remove(uid);
    this.#changed(conversation, before);
  }

  forget(conversation: CachedConversation): void {
    const { namespace, uid } = conversation.metadata;
    const usage = this.#usage(namespace);
    const before = usage.owner(conversation.spec.owner);
    usage.remove(uid);
    this.#changed(conversation, before);
  }

  /**
   * The reason why the start of a conversation is refused, or undefined. The answer stays the same
   * until it is stored.
   */
  refusalOf(conversation: CachedConversation): LimitRefusal | undefined {
    const { namespace, uid } = conversation.metadata;
    const domain = this.#options.queue(namespace);
    const usage = this.#usage(namespace);
    const before = usage.owner(conversation.spec.owner);
    const verdict = usage.verdictOn(uid, (candidate, owner, all) =>
      judge(candidate, domain, { owner, all }),
    );
    this.#changed(conversation, before);
    return verdict;
  }

  /** The present usage of everything that a quota limits. */
  countsFor({ metadata, spec }: ConversationQuota): Counts {
    const domain = this.#options.queue(metadata.namespace);
    const usage = this.#usage(metadata.namespace);
    const { maxConversations, maxStoredBytes, maxSandboxes, scope, owner } = spec;
    const isMine = (name: string, field: CapField): boolean =>
      owner === undefined ? domain.caps.owners.get(name)?.[field] === undefined : name === owner;
    const usages = (field: CapField): readonly Usage[] => {
      if (scope === 'Namespace') return [usage.namespace];
      return [...usage.owners()].flatMap(([name, one]) => (isMine(name, field) ? [one] : []));
    };
    const groups =
      scope === 'Namespace'
        ? [domain.all]
        : [...domain.owners()].filter((one) => isMine(one.name, 'maxSandboxes'));
    return {
      ...(maxConversations === undefined
        ? {}
        : { conversations: sum(usages('maxConversations'), (one) => one.conversations) }),
      ...(maxStoredBytes === undefined
        ? {}
        : { storedBytes: sum(usages('maxStoredBytes'), (one) => one.bytes) }),
      ...(maxSandboxes === undefined ? {} : { sandboxes: sum(groups, ({ load }) => load.stored) }),
    };
  }

  #stored(conversation: CachedConversation): StoredConversation {
    const { metadata, spec } = conversation;
    const { uid, name, creationTimestamp } = metadata;
    const start = startStatusOf(conversation);
    const hasOwn =
      this.#options.stores.sandboxes.byIndex(byMaker, makerKeyOf(conversation)).length > 0;
    return {
      ...{
        uid,
        name,
        owner: spec.owner,
        createdAt: Date.parse(creationTimestamp),
        bytes: conversation.storedBytes,
      },
      // A conversation that has its sandbox was accepted before, by the operator that created the
      // sandbox.
      isNew: start === 'WORKING' && !hasOwn,
      needsSandbox: spec.sandboxName === undefined && !isStartOver(start) && !hasOwn,
    };
  }

  #changed({ metadata: { namespace }, spec: { owner } }: CachedConversation, before: Usage): void {
    const now = this.#usage(namespace).owner(owner);
    const { caps } = this.#options.queue(namespace);
    const isLimited = (field: CapField): boolean => capsOf(caps, owner, field).length > 0;
    if (
      now.conversations !== before.conversations &&
      (isLimited('maxConversations') || isLimited('maxStoredBytes'))
    )
      this.#options.onChange(namespace, owner, { isSmall: false });
    else if (now.bytes !== before.bytes && isLimited('maxStoredBytes'))
      this.#options.onChange(namespace, owner, { isSmall: true });
  }

  #usage(namespace: string): StoredUsage<LimitRefusal> {
    let usage = this.#namespaces.get(namespace);
    if (usage === undefined) this.#namespaces.set(namespace, (usage = new StoredUsage()));
    return usage;
  }
}

const sum = <T>(all: readonly T[], of: (one: T) => number): number =>
  all.reduce((total, one) => total + of(one), 0);

const totalsOf = ({ conversations, bytes, sandboxesToCome }: Usage, sandboxes: number): Totals => ({
  maxConversations: conversations,
  maxStoredBytes: bytes,
  maxSandboxes: sandboxes + sandboxesToCome,
});

/** The refusal of a conversation that does not fit beside the accepted ones. Pure. */
function judge(
  { owner, bytes, needsSandbox }: StoredConversation,
  domain: Snapshot,
  usage: { readonly owner: Usage; readonly all: Usage },
): LimitRefusal | undefined {
  const own = totalsOf(usage.owner, domain.owner(owner)?.load.stored ?? 0);
  const all = totalsOf(usage.all, domain.all.load.stored);
  const more: Totals = {
    maxConversations: 1,
    maxStoredBytes: bytes,
    maxSandboxes: needsSandbox ? 1 : 0,
  };
  for (const field of capFields) {
    for (const cap of more[field] === 0 ? [] : capsOf(domain.caps, owner, field)) {
      const current = (cap.scope === 'Owner' ? own : all)[field];
      if (current + more[field] > cap.limit)
        return { code: CapExceeded[field], message: capExceededMessage(field, cap, current) };
    }
  }
  return undefined;
}
