import type { KubeClient } from '@conversation-operator/kube/client';
import { found } from '@conversation-operator/kube/errors';
import type { Sealing } from '../../agent/sealing.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations } from '../../resources/conversation.ts';
import { settingsNameOf, settingsOf, type OwnerSettings } from '../../resources/owner-settings.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { Cache } from './cache.ts';
import { conversationsIn } from './conversations-in.ts';

export interface SecretReaderOptions {
  readonly client: Pick<KubeClient, 'get'>;
  readonly sealing: Sealing;
  readonly conversations: Cache<CachedConversation>;
  readonly ownerSettings: Cache<OwnerSettings>;
}

export interface SecretName {
  readonly name: string;
  readonly description: string | null;
}

/** The problem of a secret whose master key the service does not have. */
export const unreadable = (name: string): ProblemError =>
  new ProblemError(
    'secret-unreadable',
    `The secret ${name} was stored under a master key that the service does not have any more. Store its value again.`,
  );

/**
 * The secrets that the agents of a sandbox may read: those of its owner, and those given at the
 * starts of its conversations, which take precedence.
 */
export class SecretReader {
  readonly #options: SecretReaderOptions;

  constructor(options: SecretReaderOptions) {
    this.#options = options;
  }

  conversationsIn(sandbox: Sandbox): readonly CachedConversation[] {
    return conversationsIn(sandbox, this.#options.conversations);
  }

  namesFor(sandbox: Sandbox): readonly SecretName[] {
    const owned = (this.#settingsOf(sandbox)?.secrets ?? []).map(({ name, description }) => ({
      name,
      description: description ?? null,
    }));
    const ofStarts = this.conversationsIn(sandbox)
      .flatMap(({ spec }) => spec.secrets ?? [])
      .map(({ name }) => ({ name, description: null }));
    const byName = new Map([...owned, ...ofStarts].map((each) => [each.name, each]));
    return [...byName.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
  }

  /**
   * The value of a secret for some conversations in a sandbox; undefined if no such secret exists.
   * Throws `secret-unreadable` if its master key is missing.
   */
  async valueFor(
    sandbox: Sandbox,
    name: string,
    inside: readonly CachedConversation[],
  ): Promise<string | undefined> {
    const { sealing } = this.#options;
    const { owner } = sandbox.spec;
    const ofStart = await this.#ofStart(owner, name, inside);
    if (ofStart !== undefined) return ofStart;
    const secret = this.#settingsOf(sandbox)?.secrets?.find((each) => each.name === name);
    if (secret === undefined) return undefined;
    const value = sealing.open(secret.sealed, { scope: 'secret', owner, name });
    if (value === undefined) throw unreadable(name);
    return value;
  }

  async #ofStart(
    owner: string,
    name: string,
    inside: readonly CachedConversation[],
  ): Promise<string | undefined> {
    const { client, sealing } = this.#options;
    const cached = inside.find(({ spec }) => spec.secrets?.some((each) => each.name === name));
    if (cached === undefined) return undefined;
    // The caches do not contain the encrypted secrets of conversations.
    const { namespace, name: conversation, uid } = cached.metadata;
    const stored = await found(client.get(conversations, namespace, conversation));
    if (stored?.metadata.uid !== uid) return undefined;
    const secret = stored.spec.secrets?.find((each) => each.name === name);
    const value =
      secret && sealing.open(secret.sealed, { scope: 'start', owner, conversation, name });
    if (value === undefined) throw unreadable(name);
    return value;
  }

  #settingsOf({ metadata, spec: { owner } }: Sandbox) {
    const { store } = this.#options.ownerSettings;
    return settingsOf(owner, store.get(metadata.namespace, settingsNameOf(owner)));
  }
}
