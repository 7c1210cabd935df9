import type { IncomingMessage } from 'node:http';
import { sleep, type Clock } from '@conversation-operator/base/clock';
import { sendText } from '@conversation-operator/http/body/send-json';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { keySeedOf, type Sandbox } from '../../resources/sandbox.ts';
import type { SecretReads } from '../auth/secret-reads.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { notFound } from '../errors/common-problems.ts';
import { newPool } from '../limits/pools.ts';
import type { SecretReader } from '../lookup/secret-reader.ts';
import { bearerTokenOf, noSuchEndpoint, type CallbackHandler } from './callback-server.ts';

export interface SecretsHandlerOptions {
  readonly keys: Pick<SandboxKeys, 'acceptsSecretsToken'>;
  readonly secrets: Pick<SecretReader, 'conversationsIn' | 'valueFor'>;
  readonly reads: Pick<SecretReads, 'admit' | 'record'>;
  readonly clock: Clock;
  /** Maximum wait until the cache shows a new conversation; 2 s by default. */
  readonly lagMs?: number;
}

const cachePollMs = 100;

const refused = (detail: string): ProblemError => new ProblemError('secret-access-refused', detail);

/**
 * Serves secrets to agents: `GET /secrets/{sandbox}/{conversation id}/{name}` with the secrets
 * token of the sandbox. Every process in the sandbox can read the token, so it only opens the
 * secrets of conversations in that sandbox: a secret of the start request, or else the owner's
 * secret of this name. A sandbox that is paused or being deleted can read none.
 */
export function secretsHandler(options: SecretsHandlerOptions): CallbackHandler {
  const { keys, secrets, reads, clock, lagMs = 2_000 } = options;
  const places = newPool('secretReads', clock);

  /** Checks the secrets token. The check takes equally long for an unknown and a known sandbox. */
  const holderOf = (request: IncomingMessage, sandbox: Sandbox | undefined): Sandbox => {
    const isGood = keys.acceptsSecretsToken(
      sandbox === undefined ? 'none' : keySeedOf(sandbox),
      bearerTokenOf(request),
    );
    if (isGood && sandbox !== undefined) return sandbox;
    throw refused('The secrets token of the sandbox is needed, as Authorization: Bearer.');
  };

  const conversationIn = async (
    sandbox: Sandbox,
    id: string,
    signal: AbortSignal,
  ): Promise<CachedConversation> => {
    const lateMs = clock.monotonic() + lagMs;
    for (;;) {
      const found = secrets
        .conversationsIn(sandbox)
        .find(
          (conversation) =>
            conversationIdOf(conversation) === id && startStatusOf(conversation) !== 'ERROR',
        );
      if (found !== undefined) return found;
      if (clock.monotonic() >= lateMs) throw refused('The conversation is not in this sandbox.');
      await sleep(clock, cachePollMs, signal);
    }
  };

  return {
    name: 'secrets',
    handle: async ({ request, response, origin, sandbox: named, path, signal, countFor }) => {
      const sandbox = holderOf(request, named);
      countFor(sandbox);
      const [id, name, ...rest] = path;
      if (id === undefined || name === undefined || rest.length > 0) throw noSuchEndpoint();
      if (request.method !== 'GET')
        throw new ProblemError('method-not-allowed', 'Secrets are read.', {
          headers: { Allow: 'GET' },
        });
      if (sandbox.metadata.deletionTimestamp !== undefined)
        throw refused('The sandbox is being deleted.');
      if (sandbox.spec.replicas !== 1) throw refused('The sandbox is paused.');
      reads.admit(sandbox);
      const { owner } = sandbox.spec;
      const release = await places.wait({ owner, sandbox: sandbox.metadata.uid }, { signal });
      try {
        const conversation = await conversationIn(sandbox, id, signal);
        const value = await secrets.valueFor(sandbox, name, [conversation]);
        if (value === undefined) throw notFound('secret');
        reads.record({ ...origin, sandbox, conversation: id, secret: name, by: 'agent' });
        sendText(response, 200, value, {
          'cache-control': 'no-store',
          'x-content-type-options': 'nosniff',
        });
      } finally {
        release();
      }
    },
  };
}
