import type { Clock } from '../../kube/clock.ts';
import type { Store } from '../../kube/store.ts';
import { classify, type Slot } from '../../quota/slot.ts';
import { conversations as conversationKind } from '../../resources/conversation.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { bySandbox } from '../caches.ts';
import type { SteadyTimes } from './steady-times.ts';

export interface SandboxFactsOptions {
  readonly stores: { readonly conversations: Store<CachedConversation>; readonly templates: Store<SandboxTemplate> };
  readonly clock: Clock;
  readonly times: SteadyTimes;
}

/** Puts together what the caches know of a sandbox, for what it is to its quotas. */
export class SandboxFacts {
  readonly #options: SandboxFactsOptions;

  constructor(options: SandboxFactsOptions) {
    this.#options = options;
  }

  classify(sandbox: Sandbox): Slot {
    const { stores, clock, times } = this.#options;
    const { uid, namespace } = sandbox.metadata;
    return times.translate(uid, (steady) =>
      classify({
        sandbox,
        conversations: this.conversationsOf(sandbox),
        // The cache may be behind: what it does not show may be on its way.
        unknownStart: this.#makersOf(sandbox.metadata).includes(undefined),
        limits: stores.templates.get(namespace, sandbox.spec.templateName)?.spec,
        now: clock.now(),
        steady,
      }),
    );
  }

  /** Those of its owner that are in it, and those that it was made for, which may not know its name yet. */
  conversationsOf({ metadata, spec }: Sandbox): readonly CachedConversation[] {
    const { conversations } = this.#options.stores;
    const { namespace, name } = metadata;
    const found = new Map(
      conversations.byIndex(bySandbox, `${namespace}/${name}`).map((conversation) => [conversation.metadata.uid, conversation]),
    );
    for (const made of this.#makersOf(metadata)) if (made !== undefined) found.set(made.metadata.uid, made);
    return [...found.values()].filter(({ spec: { owner } }) => owner === spec.owner);
  }

  /** The conversations that a sandbox was made for; undefined for one that the cache does not show. */
  #makersOf({ namespace, ownerReferences = [] }: Sandbox['metadata']): readonly (CachedConversation | undefined)[] {
    const owners = ownerReferences.filter(({ kind }) => kind === conversationKind.kind);
    return owners.map(({ uid, name }) => {
      const made = this.#options.stores.conversations.get(namespace, name);
      return made?.metadata.uid === uid ? made : undefined;
    });
  }
}
