import { OrderedSet } from './ordered-set.ts';

/** A conversation as the limits on what is stored see it. */
export interface StoredConversation {
  readonly uid: string;
  readonly name: string;
  readonly owner: string;
  /** Milliseconds since 1970, in whole seconds. */
  readonly createdAt: number;
  readonly bytes: number;
  /** Its start has yet to be judged. */
  readonly isNew: boolean;
  /** It is to get a sandbox of its own, and has none yet. */
  readonly needsSandbox: boolean;
}

/** What counts for a limit: of one owner, or of a namespace. */
export interface Usage {
  readonly conversations: number;
  readonly bytes: number;
  /** Sandboxes that accepted conversations are to get. */
  readonly sandboxesToCome: number;
}

const byCreation = (one: StoredConversation, other: StoredConversation): number => {
  if (one.createdAt !== other.createdAt) return one.createdAt - other.createdAt;
  if (one.name !== other.name) return one.name < other.name ? -1 : 1;
  return one.uid === other.uid ? 0 : one.uid < other.uid ? -1 : 1;
};

const nothing: Usage = { conversations: 0, bytes: 0, sandboxesToCome: 0 };

const plus = (usage: Usage, { bytes, needsSandbox }: StoredConversation, sign: 1 | -1): Usage => ({
  conversations: usage.conversations + sign,
  bytes: usage.bytes + sign * bytes,
  sandboxesToCome: usage.sandboxesToCome + (needsSandbox ? sign : 0),
});

/** Whether one more may be accepted: undefined, or why not. */
export type Judge<T> = (candidate: StoredConversation, owner: Usage, namespace: Usage) => T | undefined;

/**
 * The conversations of one namespace, in the order of their creation: those that count, and new ones. Each new one is judged once, after
 * all that were created before it, and what was accepted stays so. So it does not matter in which order their starts are taken up. A
 * refused one counts too, since its record is stored; only a sandbox never comes for it. Every change takes logarithmic time.
 */
export class StoredUsage<T> {
  readonly #conversations = new Map<string, StoredConversation>();
  readonly #new = new OrderedSet(byCreation);
  readonly #owners = new Map<string, Usage>();
  #all = nothing;
  /** Of those that are stored as new: undefined is accepted. */
  readonly #verdicts = new Map<string, T | undefined>();

  get namespace(): Usage {
    return this.#all;
  }

  owner(name: string): Usage {
    return this.#owners.get(name) ?? nothing;
  }

  owners(): IterableIterator<readonly [string, Usage]> {
    return this.#owners.entries();
  }

  put(conversation: StoredConversation): void {
    this.remove(conversation.uid, conversation.isNew);
    this.#conversations.set(conversation.uid, conversation);
    if (this.#isOpen(conversation)) this.#new.add(conversation);
    else this.#add(conversation, 1);
  }

  /** `keepVerdict`: it is stored as new still. */
  remove(uid: string, keepVerdict = false): void {
    const before = this.#conversations.get(uid);
    if (before !== undefined) {
      this.#new.delete(before);
      if (!this.#isOpen(before)) this.#add(before, -1);
      this.#conversations.delete(uid);
    }
    if (!keepVerdict) this.#verdicts.delete(uid);
  }

  /** Why the start of a conversation is refused; undefined: it is accepted, or not known. */
  verdictOn(uid: string, judge: Judge<T>): T | undefined {
    const conversation = this.#conversations.get(uid);
    if (conversation === undefined || !conversation.isNew) return undefined;
    while (this.#isOpen(conversation)) {
      const first = this.#new.first;
      if (first === undefined) break;
      this.#new.delete(first);
      const verdict = judge(first, this.owner(first.owner), this.#all);
      this.#verdicts.set(first.uid, verdict);
      this.#add(first, 1);
    }
    return this.#verdicts.get(uid);
  }

  #isOpen({ uid, isNew }: StoredConversation): boolean {
    return isNew && !this.#verdicts.has(uid);
  }

  #add(conversation: StoredConversation, sign: 1 | -1): void {
    const { owner, uid, isNew } = conversation;
    const needsSandbox = conversation.needsSandbox && !(isNew && this.#verdicts.get(uid) !== undefined);
    const counted = { ...conversation, needsSandbox };
    const usage = plus(this.owner(owner), counted, sign);
    if (usage.conversations === 0) this.#owners.delete(owner);
    else this.#owners.set(owner, usage);
    this.#all = plus(this.#all, counted, sign);
  }
}
