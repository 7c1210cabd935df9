import type { ConversationQuota, ConversationQuotaSpec } from '../resources/conversation-quota.ts';
import { durationMs } from '../resources/sandbox-template.ts';

/** The fields of a quota that limit stored objects. Inactive objects count too. */
export const capFields = ['maxConversations', 'maxStoredBytes', 'maxSandboxes'] as const;
export type CapField = (typeof capFields)[number];

/** The fields that limit archives. They are not in `capFields`, because they reject no start. */
const archiveFields = ['maxArchivedBytes', 'archiveRetention'] as const;
type LimitField = CapField | (typeof archiveFields)[number];
const limitFields: readonly LimitField[] = [...capFields, ...archiveFields];

/** The limit in a field; for archiveRetention in milliseconds. */
function limitOf(spec: ConversationQuotaSpec, field: LimitField): number | undefined {
  const limit = spec[field];
  return typeof limit === 'string' ? durationMs(limit) : limit;
}

export interface Cap {
  readonly quotaName: string;
  readonly scope: ConversationQuotaSpec['scope'];
  readonly limit: number;
}

type Caps = Readonly<Partial<Record<LimitField, Cap>>>;

/** The limits of a namespace on stored objects and archives, by scope and owner. */
export interface QuotaCaps {
  readonly namespace: Caps;
  readonly everyOwner: Caps;
  readonly owners: ReadonlyMap<string, Caps>;
}

/**
 * The lowest limit of several quotas for the same scope, field by field. Among equal limits, that
 * of the first quota by name applies.
 */
function lowest(quotas: readonly ConversationQuota[]): Caps {
  const caps: Partial<Record<LimitField, Cap>> = {};
  for (const { metadata, spec } of quotas) {
    for (const field of limitFields) {
      const limit = limitOf(spec, field);
      if (limit === undefined || limit >= (caps[field]?.limit ?? Infinity)) continue;
      caps[field] = { quotaName: metadata.name, scope: spec.scope, limit };
    }
  }
  return caps;
}

export function quotaCaps(quotas: readonly ConversationQuota[]): QuotaCaps {
  const sorted = quotas.toSorted((one, other) =>
    one.metadata.name < other.metadata.name ? -1 : 1,
  );
  const ofOwners = sorted.filter(({ spec }) => spec.scope === 'Owner');
  const byOwner = Map.groupBy(ofOwners, ({ spec }) => spec.owner);
  const named = [...byOwner].flatMap(([owner, own]) =>
    owner === undefined ? [] : [[owner, lowest(own)] as const],
  );
  return {
    namespace: lowest(sorted.filter(({ spec }) => spec.scope === 'Namespace')),
    everyOwner: lowest(byOwner.get(undefined) ?? []),
    owners: new Map(named),
  };
}

/**
 * The limits of one field for an owner: the limit of the owner's own quota, or else the limit for
 * every owner; and in addition the limit of the namespace.
 */
export function capsOf(caps: QuotaCaps, owner: string, field: LimitField): readonly Cap[] {
  const ofOwner = caps.owners.get(owner)?.[field] ?? caps.everyOwner[field];
  // Warm sandboxes have no owner.
  const own = owner === '' ? undefined : ofOwner;
  return [own, caps.namespace[field]].filter((cap) => cap !== undefined);
}

/**
 * Milliseconds for which the archives of an owner are kept: the shortest retention among those of
 * the quotas and `templateRetention`, the `archive.retention` of the template. Undefined: as long
 * as the conversation exists.
 */
export function archiveRetentionMs(
  caps: QuotaCaps,
  owner: string,
  templateRetention: string | undefined,
): number | undefined {
  const limits = capsOf(caps, owner, 'archiveRetention').map(({ limit }) => limit);
  if (templateRetention !== undefined) limits.push(durationMs(templateRetention));
  return limits.length === 0 ? undefined : Math.min(...limits);
}

/** Error codes of a start, and reasons of the condition Failed, for limits on stored objects. */
export const CapExceeded = {
  maxConversations: 'ConversationLimitExceeded',
  maxStoredBytes: 'StoredBytesLimitExceeded',
  maxSandboxes: 'SandboxLimitExceeded',
} as const satisfies Readonly<Record<CapField, string>>;

const codes: ReadonlySet<string | undefined> = new Set(Object.values(CapExceeded));
export const isCapExceeded = (code: string | undefined): boolean => codes.has(code);

const nouns: Readonly<Record<CapField, string>> = {
  maxConversations: 'stored conversations',
  maxStoredBytes: 'bytes of stored conversations',
  maxSandboxes: 'stored sandboxes',
};

/** Message for the owner of a rejected object. `current` does not count the rejected object. */
export function capExceededMessage(
  field: CapField,
  { quotaName, scope, limit }: Cap,
  current: number,
): string {
  const whom = scope === 'Owner' ? 'per owner' : 'in this namespace';
  return `The quota ${quotaName} allows ${limit} ${nouns[field]} ${whom}, and ${current} are there. Delete some, then start again.`;
}

/** Sentence for people about a limit that has no room for what moves to another owner. */
export const capReachedMessage = ({ field, quotaName, scope, limit, current }: CapUse): string =>
  `The quota ${quotaName} allows the new owner ${limit} ${nouns[field]}${scope === 'Owner' ? '' : ' in this namespace'}, and ${current} are there.`;

/** Numbers of stored objects of an owner, or of all owners of a namespace. */
export interface Totals {
  readonly conversations: number;
  readonly storedBytes: number;
  /** Number of sandboxes, including those that starts in progress are going to create. */
  readonly sandboxes: number;
}

/** A conversation that is not being deleted, with the fields on which the limits depend. */
export interface StoredConversation {
  readonly uid: string;
  readonly name: string;
  readonly owner: string;
  /** Milliseconds since 1970, in whole seconds. */
  readonly createdAt: number;
  readonly bytes: number;
  /** Whether the start still has to be checked against the limits. */
  readonly isNew: boolean;
  /** Whether the start is in progress, in a sandbox that no other conversation uses. */
  readonly wantsSandbox: boolean;
}

export interface StoredSandbox {
  readonly uid: string;
  /** Empty for a warm sandbox, which counts against no limit of an owner. */
  readonly owner: string;
  /** Whether the sandbox counts against `maxSandboxes`. */
  readonly counts: boolean;
  /** UID of the conversation for which the sandbox was created, or which has claimed it. */
  readonly madeFor?: string | undefined;
}

export interface CapUse extends Cap {
  readonly field: CapField;
  readonly current: number;
}

/** The field of `Totals` that each limit bounds. */
export const cappedTotal = {
  maxConversations: 'conversations',
  maxStoredBytes: 'storedBytes',
  maxSandboxes: 'sandboxes',
} as const satisfies Readonly<Record<CapField, keyof Totals>>;

const none: Totals = { conversations: 0, storedBytes: 0, sandboxes: 0 };
const sum = (one: Totals, other: Totals, sign: 1 | -1): Totals => ({
  conversations: one.conversations + sign * other.conversations,
  storedBytes: one.storedBytes + sign * other.storedBytes,
  sandboxes: one.sandboxes + sign * other.sandboxes,
});
const isNothing = ({ conversations, storedBytes, sandboxes }: Totals): boolean =>
  conversations === 0 && storedBytes === 0 && sandboxes === 0;

const byCreation = (one: StoredConversation, other: StoredConversation): number => {
  if (one.createdAt !== other.createdAt) return one.createdAt - other.createdAt;
  if (one.name !== other.name) return one.name < other.name ? -1 : 1;
  return one.uid === other.uid ? 0 : one.uid < other.uid ? -1 : 1;
};

/**
 * Counts the conversations and sandboxes of one namespace by owner, for the limits of quotas. A
 * start counts as one sandbox at any time: its future sandbox counts until the created one replaces
 * it. Each new conversation is checked once, after all conversations that were created before it.
 * The verdict does not change while `isNew` is true. A rejected conversation counts, because it is
 * stored, but its sandbox does not. The class uses no I/O and no clock.
 */
export class Ledger {
  readonly #owners = new Map<string, Totals>();
  #all = none;
  readonly #conversations = new Map<string, StoredConversation>();
  readonly #sandboxes = new Map<string, StoredSandbox>();
  /** Number of sandboxes of each conversation, by `owner/uid` of the conversation. */
  readonly #made = new Map<string, number>();
  /** New conversations without a verdict, in the order of creation. They do not count yet. */
  readonly #open: StoredConversation[] = [];
  /** Verdicts on new conversations: the limit that rejects the conversation, or undefined. */
  readonly #verdicts = new Map<string, CapUse | undefined>();

  get all(): Totals {
    return this.#all;
  }

  get isEmpty(): boolean {
    return this.#conversations.size === 0 && this.#sandboxes.size === 0;
  }

  of(owner: string): Totals {
    return this.#owners.get(owner) ?? none;
  }

  /** Owners who have stored objects. */
  owners(): Iterable<string> {
    return this.#owners.keys();
  }

  /** Owner of a known conversation. */
  ownerOf(uid: string): string | undefined {
    return this.#conversations.get(uid)?.owner;
  }

  putConversation(conversation: StoredConversation): void {
    const { uid, isNew } = conversation;
    this.#recount(uid, () => {
      this.#conversations.set(uid, conversation);
      if (!isNew) this.#verdicts.delete(uid);
    });
  }

  removeConversation(uid: string): void {
    this.#recount(uid, () => {
      this.#conversations.delete(uid);
      this.#verdicts.delete(uid);
    });
  }

  putSandbox(sandbox: StoredSandbox): void {
    this.removeSandbox(sandbox.uid);
    this.#sandboxes.set(sandbox.uid, sandbox);
    this.#countSandbox(sandbox, 1);
  }

  removeSandbox(uid: string): void {
    const old = this.#sandboxes.get(uid);
    if (old === undefined) return;
    this.#sandboxes.delete(uid);
    this.#countSandbox(old, -1);
  }

  /** Counts a write in advance. The returned function removes the count; it must be called once. */
  reserve(owner: string, growth: Partial<Totals>): () => void {
    const reserved = { ...none, ...growth };
    this.#add(owner, reserved, 1);
    return () => this.#add(owner, reserved, -1);
  }

  /** The use of every limit of an owner. */
  usesOf(caps: QuotaCaps, owner: string): readonly CapUse[] {
    return capFields.flatMap((field) =>
      capsOf(caps, owner, field).map((cap) => ({
        ...cap,
        field,
        current: (cap.scope === 'Owner' ? this.of(owner) : this.#all)[cappedTotal[field]],
      })),
    );
  }

  /** The first limit that this growth would exceed. */
  exceeded(caps: QuotaCaps, owner: string, growth: Partial<Totals>): CapUse | undefined {
    return this.usesOf(caps, owner).find(({ field, limit, current }) => {
      const more = growth[cappedTotal[field]] ?? 0;
      return more > 0 && current + more > limit;
    });
  }

  /** The limit that rejects a conversation. Undefined: the conversation is accepted or unknown. */
  verdictOn(uid: string, caps: QuotaCaps): CapUse | undefined {
    const conversation = this.#conversations.get(uid);
    while (conversation !== undefined && this.#isOpen(conversation)) {
      const [first = conversation] = this.#open;
      const verdict = this.exceeded(caps, first.owner, this.#totalsOf(first));
      this.#recount(first.uid, () => this.#verdicts.set(first.uid, verdict));
    }
    return this.#verdicts.get(uid);
  }

  #isOpen({ uid, isNew }: StoredConversation): boolean {
    return isNew && !this.#verdicts.has(uid);
  }

  #hasSandbox({ owner, uid }: StoredConversation): boolean {
    return this.#made.has(`${owner}/${uid}`);
  }

  #totalsOf(conversation: StoredConversation): Totals {
    const { uid, bytes, wantsSandbox } = conversation;
    const isExpecting =
      wantsSandbox && !this.#hasSandbox(conversation) && this.#verdicts.get(uid) === undefined;
    return { conversations: 1, storedBytes: bytes, sandboxes: isExpecting ? 1 : 0 };
  }

  /** Makes a change, and updates the count of the conversation, which depends on the change. */
  #recount(uid: string, change: () => void): void {
    this.#countConversation(this.#conversations.get(uid), -1);
    change();
    const after = this.#conversations.get(uid);
    // A conversation that has a sandbox was accepted before, possibly by a previous leader.
    if (after !== undefined && this.#isOpen(after) && this.#hasSandbox(after))
      this.#verdicts.set(uid, undefined);
    this.#countConversation(after, 1);
  }

  #countConversation(conversation: StoredConversation | undefined, sign: 1 | -1): void {
    if (conversation === undefined) return;
    if (!this.#isOpen(conversation))
      this.#add(conversation.owner, this.#totalsOf(conversation), sign);
    else if (sign === -1) this.#open.splice(this.#open.indexOf(conversation), 1);
    else {
      // The search begins at the end, because conversations arrive nearly in the order of creation.
      const before = this.#open.findLastIndex((other) => byCreation(other, conversation) < 0);
      this.#open.splice(before + 1, 0, conversation);
    }
  }

  #countSandbox({ owner, counts, madeFor = '' }: StoredSandbox, sign: 1 | -1): void {
    // A warm sandbox has no owner, and counts against no limit.
    if (owner === '') return;
    if (counts) this.#add(owner, { ...none, sandboxes: 1 }, sign);
    if (madeFor === '') return;
    this.#recount(madeFor, () => {
      const key = `${owner}/${madeFor}`;
      const made = (this.#made.get(key) ?? 0) + sign;
      if (made === 0) this.#made.delete(key);
      else this.#made.set(key, made);
    });
  }

  #add(owner: string, totals: Totals, sign: 1 | -1): void {
    this.#all = sum(this.#all, totals, sign);
    const own = sum(this.of(owner), totals, sign);
    if (isNothing(own)) this.#owners.delete(owner);
    else this.#owners.set(owner, own);
  }
}
