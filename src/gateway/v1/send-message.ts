import type { StorageCaps } from '../lookup/storage-caps.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { RandomBytes } from '../auth/key.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/base/clock';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import { z } from 'zod';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import { sandboxStatuses } from '../../resources/conversation-status.ts';
import { newUuid } from '@conversation-operator/kube/uuid';
import { type Route, endpoints } from '../http/route.ts';
import { invalidField } from '../errors/validation.ts';
import { storedWithSandbox } from '../lookup/stored.ts';
import { sandboxViewOf } from '../presenters/conversation.ts';
import { idempotencyHeaders, messageIdsOf } from './idempotency.ts';
import { isTooLarge, maxQueuedBytes, queueMessage } from './message-queue.ts';
import { ownConversation } from './own-objects.ts';
import { refuseOverQuota } from './quota.ts';
import { comesBackFromError, refuseUnusable, requestResume } from './resume.ts';
import { conversationParams, messageOf, sendMessageSchema } from './schemas.ts';

const { post } = endpoints('conversations');

/**
 * An agent between two tool calls takes a message in milliseconds. One that is busy for longer gets
 * it later.
 */
const deliveryMs = 3_000;

export const sentSchema = z.object({
  success: z.literal(true),
  sandbox_status: z.enum(sandboxStatuses),
  queued: z
    .boolean()
    .describe('True: the message is stored, and the agent gets it as soon as it can take it.'),
});

/** What messages need. */
interface MessageNeeds {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly lookup: ResourceLookup;
  readonly feeds: {
    readonly conversations: ObjectFeed<CachedConversation>;
    readonly sandboxes: ObjectFeed<Sandbox>;
  };
  readonly keys: Pick<SandboxKeys, 'derivedIds'>;
  readonly caps: StorageCaps;
}

export const sendMessageRoute = (needs: MessageNeeds): Route =>
  post('/api/v1/app-conversations/{id}/send-message', 'sendMessage', {
    summary:
      'Send a message to the agent: delivered once, in the order of the answers; a paused sandbox is resumed for it',
    params: conversationParams,
    headers: idempotencyHeaders,
    body: sendMessageSchema,
    responses: { 200: sentSchema, 202: sentSchema },
    problems: [
      'not-found',
      'wrong-state',
      'conflict',
      'idempotency-key-reused',
      'message-queue-full',
      'quota-exceeded',
      'stored-bytes-limit-exceeded',
    ],
    handle: async ({ headers, body, ...call }) => {
      const { client, clock, random, lookup, feeds, keys, caps } = needs;
      const { owner } = call;
      const known = await ownConversation(lookup, call);
      const { name } = known.metadata;
      const message = messageOf(body);
      if (isTooLarge(message))
        throw invalidField('body.content', `must have at most ${maxQueuedBytes} bytes`);
      // The cache may not show a recent pause through another replica.
      const { conversation, sandbox } = await storedWithSandbox(client, known);
      const { phase } = sandboxViewOf(conversation, sandbox);
      const isFailed =
        phase === 'ERROR' &&
        startStatusOf(conversation) === 'READY' &&
        sandbox !== undefined &&
        comesBackFromError(lookup, sandbox);
      refuseUnusable(phase, isFailed);
      // The resume comes before the write, so that no stored message remains undelivered in a
      // paused sandbox.
      const isWoken = phase === 'PAUSED' || isFailed;
      if (isWoken && sandbox !== undefined) {
        refuseOverQuota(lookup, owner);
        await requestResume(needs, sandbox);
      }
      const key = headers['idempotency-key'];
      const [id = newUuid(clock.now(), random), ...otherIds] =
        key === undefined ? [] : messageIdsOf(keys, owner, name, key);
      const takeRoom = (storedBytes: number) => caps.reserve(owner, { storedBytes });
      const {
        number,
        conversation: updated,
        reservation,
      } = await queueMessage(client, conversation, id, message, takeRoom, otherIds);
      void feeds.conversations
        .shows(cachedConversation(updated))
        .then(() => reservation?.release());
      const isDelivered = (seen: CachedConversation | undefined) =>
        (seen?.status?.messages?.lastDelivered ?? 0) >= number;
      if (phase === 'RUNNING') await feeds.conversations.settled(name, isDelivered, deliveryMs);
      if (isDelivered(lookup.cachedConversation(name)))
        return { json: { success: true, sandbox_status: 'RUNNING', queued: false } };
      const sandbox_status = isWoken ? 'STARTING' : phase;
      return { status: 202, json: { success: true, sandbox_status, queued: true } };
    },
  });
