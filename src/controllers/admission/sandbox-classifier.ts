import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { classify } from '../../quota/classify.ts';
import type { Slot } from '../../quota/slot.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { isInSandbox, conversationReferencesOf } from '../../resources/sandbox-owner-references.ts';
import { bySandbox, type Stores } from '../caches.ts';
import { ElapsedTimes } from '../elapsed-times.ts';

export interface SandboxClassifierOptions {
  readonly stores: Pick<Stores, 'conversations' | 'templates'>;
  readonly clock: Clock;
  /** Wall clock minus monotonic clock when the process began, in milliseconds. */
  readonly offsetMs: number;
}

/** Maximum deleted conversations in memory. Garbage collection removes their sandboxes soon. */
const maxRemembered = 20_000;

/** A conversation in an owner reference; undefined if the caches do not know the object. */
type ReferencedConversation = CachedConversation | 'deleted' | undefined;

/** Collects the facts by which `classify` computes the slot of a sandbox. */
export class SandboxClassifier {
  readonly #options: SandboxClassifierOptions;
  readonly #elapsed: ElapsedTimes;
  readonly #deleted = recentlyUsed<true>(maxRemembered);

  constructor(options: SandboxClassifierOptions) {
    this.#options = options;
    this.#elapsed = new ElapsedTimes(options);
  }

  /** Records a deleted conversation, which starts no more work in the sandbox made for it. */
  forgetConversation({ metadata: { uid } }: CachedConversation): void {
    this.#deleted.set(uid, true);
  }

  classify(sandbox: Sandbox): Slot {
    const { stores, clock, offsetMs } = this.#options;
    const { uid, namespace } = sandbox.metadata;
    const referenced = this.#referencedConversations(sandbox);
    return classify({
      sandbox,
      conversations: this.conversationsOf(sandbox, referenced),
      // A conversation that the cache lacks may exist, because the cache may lag.
      unknownStart: referenced.includes(undefined),
      orphaned: referenced.length > 0 && referenced.every(isGone),
      hasForeignReferences: referenced.length === 0,
      limits: stores.templates.get(namespace, sandbox.spec.templateName)?.spec,
      now: clock.now(),
      steady: (name, ms) => offsetMs + this.#elapsed.beganAt(`${uid}/${name}`, ms),
    });
  }

  /**
   * The conversations whose status names the sandbox, and those that the owner references of the
   * sandbox name. The status of the latter may not name the sandbox yet.
   */
  conversationsOf(
    sandbox: Sandbox,
    referenced = this.#referencedConversations(sandbox),
  ): readonly CachedConversation[] {
    const { conversations } = this.#options.stores;
    const { namespace, name } = sandbox.metadata;
    const found = new Map(
      conversations
        .byIndex(bySandbox, `${namespace}/${name}`)
        .filter((conversation) => isInSandbox(conversation, sandbox))
        .map((conversation) => [conversation.metadata.uid, conversation]),
    );
    for (const made of referenced) if (typeof made === 'object') found.set(made.metadata.uid, made);
    return [...found.values()];
  }

  /** The conversations in the sandbox's owner references, except those of other owners. */
  #referencedConversations(sandbox: Sandbox): readonly ReferencedConversation[] {
    return conversationReferencesOf(sandbox).flatMap(
      ({ uid, name }): readonly ReferencedConversation[] => {
        const made = this.#options.stores.conversations.get(sandbox.metadata.namespace, name);
        if (made?.metadata.uid === uid) return made.spec.owner === sandbox.spec.owner ? [made] : [];
        return [this.#deleted.get(uid) === true ? 'deleted' : undefined];
      },
    );
  }
}

const isGone = (found: ReferencedConversation): boolean =>
  found === 'deleted' || (found !== undefined && found.metadata.deletionTimestamp !== undefined);
