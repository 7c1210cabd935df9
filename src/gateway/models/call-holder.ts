import { sleep, type Clock } from '@conversation-operator/base/clock';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { keySeedOf, type Sandbox } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { CallbackRequest } from '../callback-server/callback-server.ts';
import type { Cache } from '../lookup/cache.ts';
import type { SecretReader } from '../lookup/secret-reader.ts';
import { CallRefused } from './call-refused.ts';
import { credentialsIn, type CredentialPlace } from './forwarded-headers.ts';

/** The conversation whose agent calls a model, where it works, and how it has shown its token. */
export interface CallHolder {
  readonly sandbox: Sandbox;
  readonly conversation: CachedConversation;
  /** Template of the conversation. Its sandbox may have another one. */
  readonly template: SandboxTemplate;
  readonly places: readonly CredentialPlace[];
}

export interface CallHoldersOptions {
  readonly keys: Pick<SandboxKeys, 'acceptsModelsToken'>;
  readonly conversations: Pick<SecretReader, 'conversationsIn'>;
  readonly templates: Cache<SandboxTemplate>;
  /** Whether all caches have been filled: before, this replica knows nobody. */
  readonly isSynced: () => boolean;
  readonly clock: Clock;
  /** Maximum wait until the cache shows a new conversation; 5 s by default. */
  readonly lagMs?: number;
}

const cachePollMs = 50;

const unauthorized = (message: string) => new CallRefused('unauthorized', message);

/** Finds out who calls. The token is in every process of the sandbox, so it opens nothing else. */
export class CallHolders {
  readonly #options: CallHoldersOptions;

  constructor(options: CallHoldersOptions) {
    this.#options = options;
  }

  /**
   * The sandbox and the conversation of the token. Throws `CallRefused`, which takes equally long
   * for an unknown sandbox and a wrong token.
   */
  async of(
    { request, query, sandbox, signal }: CallbackRequest,
    conversationId: string,
  ): Promise<CallHolder> {
    const { keys, templates, isSynced } = this.#options;
    // Agents give up for good when their key is refused.
    if (!isSynced())
      throw new CallRefused('busy', 'The gateway is starting.', { retryAfterSeconds: 1 });
    const seed = sandbox === undefined ? 'none' : keySeedOf(sandbox);
    const found = credentialsIn(request.headers, query);
    const isGood = found.map(({ token }) => keys.acceptsModelsToken(seed, conversationId, token));
    if (sandbox === undefined || found.length === 0 || isGood.includes(false))
      throw unauthorized('The token of this conversation is needed as the API key.');
    if (sandbox.metadata.deletionTimestamp !== undefined)
      throw unauthorized('The sandbox is being deleted.');
    if (sandbox.spec.replicas !== 1) throw unauthorized('The sandbox is paused.');
    const conversation = await this.#conversationIn(sandbox, conversationId, signal);
    const { templateName } = conversation.spec;
    const template = templates.store.get(conversation.metadata.namespace, templateName);
    if (template === undefined)
      throw new CallRefused('not-allowed', `The sandbox template ${templateName} does not exist.`);
    return { sandbox, conversation, template, places: found.map(({ place }) => place) };
  }

  async #conversationIn(
    sandbox: Sandbox,
    id: string,
    signal: AbortSignal,
  ): Promise<CachedConversation> {
    const { conversations, clock, lagMs = 5_000 } = this.#options;
    const lateMs = clock.monotonic() + lagMs;
    for (;;) {
      const found = conversations
        .conversationsIn(sandbox)
        .find(
          (conversation) =>
            conversationIdOf(conversation) === id && startStatusOf(conversation) !== 'ERROR',
        );
      if (found !== undefined) return found;
      if (clock.monotonic() >= lateMs)
        throw unauthorized('The conversation is not in this sandbox.');
      await sleep(clock, cachePollMs, signal);
    }
  }
}
