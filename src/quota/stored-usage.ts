import { OrderedSet } from './ordered-set.ts';

/** The part of a conversation that matters for the limits on stored objects. */
export interface StoredConversation {
  readonly uid: string;
  readonly name: string;
  readonly owner: string;
  /** Milliseconds since 1970, in whole seconds. */
  readonly createdAt: number;
  readonly bytes: number;
  /** Whether its start has yet to be judged. */
  readonly isNew: boolean;
  /** Whether the conversation is to get a sandbox of its own, and has none yet. */
  readonly needsSandbox: boolean;
}

/** The usage of one owner, or of a namespace. */
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

/**
 * The fields of a conversation that count, and no others, because memory holds one for each stored
 * conversation.
 */
type Counted = Pick<StoredConversation, 'owner' | 'bytes' | 'needsSandbox'>;

const nothing: Usage = { conversations: 0, bytes: 0, sandboxesToCome: 0 };

const plus = (usage: Usage, { bytes, needsSandbox }: Counted, sign: 1 | -1): Usage => ({
  conversations: usage.conversations + sign,
  bytes: usage.bytes + sign * bytes,
  sandboxesToCome: usage.sandboxesToCome + (needsSandbox ? sign : 0),
});

/** Decides on one more conversation: undefined accepts it, and a refusal states the reason. */
export type Judge<T> = (
  candidate: StoredConversation,
  owner: Usage,
  namespace: Usage,
) => T | undefined;

/**
 * The conversations of one namespace, in the order of their creation: those that count, and new
 * ones. Each new one is judged once, after all that were created before it, and an accepted one
 * stays accepted. The order in which their starts begin does not matter. A refused one counts too,
 * since its record is stored; only a sandbox never comes for it. Every change takes logarithmic
 * time.
 */
export class StoredUsage<T> {
  /** Conversations that are not stored as new, by uid. */
  readonly #settled = new Map<string, Counted>();
  /** Conversations that are stored as new, by uid. */
  readonly #newcomers = new Map<string, StoredConversation>();
  /** Newcomers without a verdict: they do not count yet. */
  readonly #open = new OrderedSet(byCreation);
  readonly #owners = new Map<string, Usage>();
  #all = nothing;
  /** Verdicts on conversations that are stored as new, by uid; undefined is accepted. */
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
    const { uid, owner, bytes, needsSandbox, isNew } = conversation;
    this.remove(uid, isNew);
    if (isNew) {
      this.#newcomers.set(uid, conversation);
      if (this.#isOpen(conversation)) this.#open.add(conversation);
      else this.#add(this.#counted(conversation), 1);
    } else {
      const settled = { owner, bytes, needsSandbox };
      this.#settled.set(uid, settled);
      this.#add(settled, 1);
    }
  }

  /** Removes a conversation. `keepVerdict`: the conversation is still stored as new. */
  remove(uid: string, keepVerdict = false): void {
    const settled = this.#settled.get(uid);
    if (settled !== undefined) this.#add(settled, -1);
    this.#settled.delete(uid);
    const newcomer = this.#newcomers.get(uid);
    if (newcomer !== undefined && !this.#open.delete(newcomer))
      this.#add(this.#counted(newcomer), -1);
    this.#newcomers.delete(uid);
    if (!keepVerdict) this.#verdicts.delete(uid);
  }

  /**
   * The reason why the start of a conversation is refused; undefined for one that is accepted, or
   * not known.
   */
  verdictOn(uid: string, judge: Judge<T>): T | undefined {
    const conversation = this.#newcomers.get(uid);
    if (conversation === undefined) return undefined;
    while (this.#isOpen(conversation)) {
      const first = this.#open.first;
      if (first === undefined) break;
      this.#open.delete(first);
      const verdict = judge(first, this.owner(first.owner), this.#all);
      this.#verdicts.set(first.uid, verdict);
      this.#add(this.#counted(first), 1);
    }
    return this.#verdicts.get(uid);
  }

  #isOpen({ uid }: StoredConversation): boolean {
    return !this.#verdicts.has(uid);
  }

  /** No sandbox comes for a newcomer that is refused. */
  #counted({ uid, owner, bytes, needsSandbox }: StoredConversation): Counted {
    return { owner, bytes, needsSandbox: needsSandbox && this.#verdicts.get(uid) === undefined };
  }

  #add(counted: Counted, sign: 1 | -1): void {
    const { owner } = counted;
    const usage = plus(this.owner(owner), counted, sign);
    if (usage.conversations === 0) this.#owners.delete(owner);
    else this.#owners.set(owner, usage);
    this.#all = plus(this.#all, counted, sign);
  }
}
