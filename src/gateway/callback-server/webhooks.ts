import type { IncomingMessage } from 'node:http';
import type { Clock } from '@conversation-operator/base/clock';
import { parseUuid } from '@conversation-operator/base/uuid';
import { SubstringSearch } from '@conversation-operator/http/body/substring-search';
import { TokenBuckets } from '@conversation-operator/http/limits/rate-limits';
import type { AgentNotification } from '../../agent/notifications.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import { keySeedOf, type Sandbox } from '../../resources/sandbox.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { isEqual } from '../auth/key.ts';
import { noSuchEndpoint, type CallbackHandler } from './callback-server.ts';
import type { MeasuredRuntime } from '../../observability/metrics.ts';

export interface WebhooksOptions extends Pick<MeasuredRuntime, 'clock' | 'metrics'> {
  readonly keys: Pick<SandboxKeys, 'sessionKey'>;
  /** Sends a notification to the operators without waiting for them. */
  readonly notify: (notification: AgentNotification, owner: string) => void;
}

/**
 * A field name in every event that changes a conversation, and in every event with the whole state
 * of a conversation. Output of a tool or a model contains this text only by chance.
 */
const changeMarker = 'execution_status';
/** Maximum bytes of a body that are searched; a longer body counts as a change. */
const maxSearchedBytes = 1024 * 1024;
const patienceMs = 5_000;
/** Limit of one sandbox, which is above what several working conversations send. */
const sandboxRate = { perSecond: 20, burst: 100, capacity: 20_000 };
const ownerRate = { perSecond: 200, burst: 1_000, capacity: 20_000 };

/**
 * Receives the agents' webhooks: `POST /webhooks/{sandbox}/conversations` and `…/events/{id}`, with
 * the sandbox's session key. The handler reads a body only until it finds `changeMarker`, and
 * trusts nothing in the body: the operator polls the agent.
 */
export function webhooks({ keys, notify, clock, metrics }: WebhooksOptions): CallbackHandler {
  const sandboxBuckets = new TokenBuckets({ clock, ...sandboxRate });
  const ownerBuckets = new TokenBuckets({ clock, ...ownerRate });

  const keyOf = (sandbox: Sandbox | undefined): string | undefined => {
    try {
      // For an unknown sandbox, a key that no client has makes the check take equally long.
      return sandbox === undefined
        ? keys.sessionKey('none')
        : keys.sessionKey(keySeedOf(sandbox), sandbox.status?.masterKeyId);
    } catch {
      return undefined;
    }
  };

  const authenticate = (request: IncomingMessage, sandbox: Sandbox | undefined): Sandbox => {
    const given = request.headers['x-session-api-key'];
    const key = keyOf(sandbox);
    const isRight = key !== undefined && isEqual(key, typeof given === 'string' ? given : '');
    if (isRight && sandbox !== undefined) return sandbox;
    metrics.webhooks.inc({ result: 'unauthorized' });
    throw new ProblemError('unauthorized', 'The session key of the sandbox is needed.');
  };

  return {
    name: 'webhooks',
    handle: async ({ request, response, sandbox: named, path, signal, countFor }) => {
      const sandbox = authenticate(request, named);
      countFor(sandbox);
      const { metadata, spec } = sandbox;
      const id = whatOf(path);
      if (id === undefined) throw noSuchEndpoint();
      if (request.method !== 'POST')
        throw new ProblemError('method-not-allowed', 'Webhooks are posted.', {
          headers: { Allow: 'POST' },
        });
      // Every result is a 204, because an agent sends a webhook again after an error.
      const done = (result: 'notified' | 'passed' | 'limited') => {
        metrics.webhooks.inc({ result });
        response.writeHead(204).end();
      };
      if (!sandboxBuckets.take(metadata.uid).allowed || !ownerBuckets.take(spec.owner).allowed) {
        done('limited');
        return;
      }
      const notification = { namespace: metadata.namespace, sandbox: metadata.name };
      if (id === 'any') notify(notification, spec.owner);
      else if (await namesChange(request, clock, signal))
        notify({ ...notification, conversationId: id }, spec.owner);
      else {
        done('passed');
        return;
      }
      done('notified');
    },
  };
}

/** The conversation id in the path; `any` for the whole sandbox; undefined for an unknown path. */
function whatOf([what, id, ...rest]: readonly string[]): string | undefined {
  if (what === 'conversations' && id === undefined) return 'any';
  return what === 'events' && id !== undefined && rest.length === 0 ? parseUuid(id) : undefined;
}

/** Whether the body contains `changeMarker` or is too long; the rest of the body is discarded. */
function namesChange(
  request: IncomingMessage,
  clock: Clock,
  signal: AbortSignal,
): Promise<boolean> {
  const search = new SubstringSearch(changeMarker);
  return new Promise((resolve) => {
    let size = 0;
    const end = (found: boolean) => {
      timer.cancel();
      signal.removeEventListener('abort', giveUp);
      request.off('data', read).off('end', giveUp).off('error', giveUp).resume();
      resolve(found);
    };
    const giveUp = () => end(false);
    const read = (piece: Buffer) => {
      size += piece.length;
      if (search.isIn(piece) || size > maxSearchedBytes) end(true);
    };
    const timer = clock.after(patienceMs, giveUp);
    signal.addEventListener('abort', giveUp, { once: true });
    request.on('data', read).once('end', giveUp).once('error', giveUp);
    if (signal.aborted) giveUp();
  });
}
