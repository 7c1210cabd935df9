import type { Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Request } from '@conversation-operator/kube/controller';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../resources/conversation.ts';
import { sandboxTemplates, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import { sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { isInSandbox, conversationReferencesOf } from '../../resources/sandbox-owner-references.ts';
import { bySandbox, type Stores } from '../caches.ts';
import { storedObject } from '../stored-object.ts';
import { countdownOfConversation, countdownOfSandbox, type Countdown } from './countdown.ts';

export interface RetentionSubjectsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly stores: Pick<Stores, 'conversations' | 'sandboxes' | 'templates'>;
}

/** An object that retention may delete, with the facts for the decision. */
export interface RetentionSubject {
  readonly object: CachedConversation | Sandbox;
  readonly countdown: Countdown | undefined;
  /** The conversations in the sandbox `object`, which get the Events about its deletion. */
  readonly conversations: readonly CachedConversation[];
  /** The sandbox that is deleted with a conversation, because no other conversation uses it. */
  readonly ownSandbox?: Sandbox | undefined;
}

export const isConversation = (
  object: CachedConversation | Sandbox,
): object is CachedConversation => object.kind === conversations.kind;

export const resourceFor = (
  object: CachedConversation | Sandbox,
): ResourceDefinition<Conversation | Sandbox> =>
  isConversation(object) ? conversations : sandboxes;

/** Collects the facts about an object from the caches or from the API server. */
export class RetentionSubjects {
  readonly #options: RetentionSubjectsOptions;

  constructor(options: RetentionSubjectsOptions) {
    this.#options = options;
  }

  cached({ namespace, name }: Request): RetentionSubject | undefined {
    const { stores } = this.#options;
    const [plural = '', own = ''] = name.split('/');
    if (plural === conversations.plural) {
      const conversation = stores.conversations.get(namespace, own);
      return conversation === undefined ? undefined : this.ofConversation(conversation);
    }
    const sandbox = stores.sandboxes.get(namespace, own);
    return sandbox === undefined ? undefined : this.ofSandbox(sandbox);
  }

  ofConversation(conversation: CachedConversation): RetentionSubject {
    const { stores } = this.#options;
    const { namespace } = conversation.metadata;
    const { sandboxName } = conversation.status ?? {};
    const named =
      sandboxName === undefined ? undefined : stores.sandboxes.get(namespace, sandboxName);
    const sandbox = named !== undefined && isInSandbox(conversation, named) ? named : undefined;
    const template = stores.templates.get(namespace, templateNameOf(conversation, sandbox));
    return this.#conversation(conversation, sandbox, template);
  }

  ofSandbox(sandbox: Sandbox): RetentionSubject {
    const { stores } = this.#options;
    const { namespace } = sandbox.metadata;
    const template = stores.templates.get(namespace, sandbox.spec.templateName);
    return this.#sandbox(sandbox, this.#knownIn(sandbox), template);
  }

  /**
   * Reads the facts from the API server; undefined when the object is deleted. The object is read
   * first, so that a use of its sandbox or its conversations after this read still counts.
   */
  async stored(
    object: CachedConversation | Sandbox,
    signal: AbortSignal,
  ): Promise<RetentionSubject | undefined> {
    const { namespace, name, uid } = object.metadata;
    const read = async <T extends KubeObject>(resource: ResourceDefinition<T>, of: string) => {
      const identity = { metadata: { namespace, name: of } };
      const stored = await storedObject(
        { client: this.#options.client, signal },
        resource,
        identity,
      );
      return stored === undefined || resource.accepts?.(stored) === false ? undefined : stored;
    };
    if (isConversation(object)) {
      const stored = await read(conversations, name);
      if (stored?.metadata.uid !== uid) return undefined;
      const conversation = cachedConversation(stored);
      const { sandboxName } = conversation.status ?? {};
      const named = sandboxName === undefined ? undefined : await read(sandboxes, sandboxName);
      const sandbox = named !== undefined && isInSandbox(conversation, named) ? named : undefined;
      const template = await read(sandboxTemplates, templateNameOf(conversation, sandbox));
      return {
        ...this.#conversation(conversation, sandbox, template),
        ownSandbox: sandbox !== undefined && isOnlyOf(sandbox, conversation) ? sandbox : undefined,
      };
    }
    const sandbox = await read(sandboxes, name);
    if (sandbox?.metadata.uid !== uid) return undefined;
    const template = await read(sandboxTemplates, sandbox.spec.templateName);
    // The stored owner references include conversations that the cache does not show yet.
    const names = new Set([
      ...this.#knownIn(sandbox).map(({ metadata }) => metadata.name),
      ...conversationReferencesOf(sandbox).map((reference) => reference.name),
    ]);
    const users = await Promise.all([...names].map((of) => read(conversations, of)));
    const inIt = users.flatMap((user) =>
      user?.spec.owner === sandbox.spec.owner ? cachedConversation(user) : [],
    );
    return this.#sandbox(sandbox, inIt, template);
  }

  #conversation(
    conversation: CachedConversation,
    sandbox: Sandbox | undefined,
    template: SandboxTemplate | undefined,
  ): RetentionSubject {
    const nowMs = this.#options.clock.now();
    const countdown = isMoving(conversation)
      ? undefined
      : countdownOfConversation({ nowMs, conversation, sandbox, template });
    return { object: conversation, countdown, conversations: [] };
  }

  #sandbox(
    sandbox: Sandbox,
    inIt: readonly CachedConversation[],
    template: SandboxTemplate | undefined,
  ): RetentionSubject {
    const nowMs = this.#options.clock.now();
    const countdown = isMoving(sandbox)
      ? undefined
      : countdownOfSandbox({ nowMs, sandbox, conversations: inIt, template });
    return { object: sandbox, countdown, conversations: inIt };
  }

  /** The conversations in a sandbox, according to the cache. */
  #knownIn(sandbox: Sandbox): readonly CachedConversation[] {
    const { namespace, name } = sandbox.metadata;
    return this.#options.stores.conversations
      .byIndex(bySandbox, `${namespace}/${name}`)
      .filter((conversation) => isInSandbox(conversation, sandbox));
  }
}

/**
 * Whether the object moves to another owner. Its sandbox and its conversation have different owners
 * for a moment, so neither seems to be used.
 */
const isMoving = ({ spec }: CachedConversation | Sandbox): boolean => spec.handover !== undefined;

/** Whether the conversation is the sandbox's only owner reference. */
const isOnlyOf = (
  { metadata: { ownerReferences = [] } }: Sandbox,
  { metadata }: CachedConversation,
): boolean =>
  ownerReferences.length > 0 && ownerReferences.every(({ uid }) => uid === metadata.uid);

const templateNameOf = ({ spec }: CachedConversation, sandbox: Sandbox | undefined): string =>
  sandbox?.spec.templateName ?? spec.templateName;
