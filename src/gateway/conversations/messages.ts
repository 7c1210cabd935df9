import { requireTemplate } from '../auth/key-ring.ts';
import { conversationParams } from '../http/fields.ts';
import { z } from 'zod';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import { sandboxStatuses } from '../../resources/conversation-status.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { type Route, changeableConversation, endpoints } from '../http/route.ts';
import { storedWithSandbox } from '../lookup/stored.ts';
import { sandboxViewOf } from '../presenters/conversation.ts';
import { idempotencyHeaders, messageIdsOf } from './idempotency.ts';
import { refuseOverQuota } from '../quota/quota.ts';
import { comesBackFromError, refuseUnusable, requestResume } from '../sandboxes/resume.ts';
import type { StartNeeds } from './start.ts';
import { messageOf, sendMessageSchema } from '../presenters/message.ts';
import { queueMessage, refuseTooLarge, type Store } from './message-queue.ts';

const { post } = endpoints('conversations');

/** Maximum wait for delivery; an agent takes a message between two tool calls in milliseconds. */
const deliveryMs = 3_000;

export const sentSchema = z.object({
  success: z.literal(true),
  sandbox_status: z.enum(sandboxStatuses),
  queued: z
    .boolean()
    .describe('True: the message is stored, and the agent gets it as soon as it can take it.'),
});

export const sendMessageRoute = (needs: StartNeeds): Route =>
  post('/api/v1/app-conversations/{id}/send-message', 'sendMessage', {
    scope: 'start',
    summary:
      'Send a message to the agent: delivered once, in the order of the answers; a paused sandbox is resumed for it',
    params: conversationParams,
    headers: idempotencyHeaders,
    body: sendMessageSchema,
    responses: { 200: sentSchema, 202: sentSchema },
    problems: [
      'not-found',
      'template-not-allowed',
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
      const known = await changeableConversation(lookup, call);
      const { name } = known.metadata;
      const message = messageOf(body);
      refuseTooLarge(message);
      // The cache may lag behind a pause by another replica.
      const { conversation, sandbox } = await storedWithSandbox(client, known);
      const { phase } = sandboxViewOf(conversation, sandbox);
      const isFailed =
        phase === 'ERROR' &&
        startStatusOf(conversation) === 'READY' &&
        sandbox !== undefined &&
        comesBackFromError(lookup, sandbox);
      refuseUnusable(phase, { comesBack: isFailed });
      // The resume comes first, so that no message is stored for a sandbox that stays paused.
      const isWoken = phase === 'PAUSED' || isFailed;
      if (isWoken && sandbox !== undefined) {
        requireTemplate(call.principal.chain, sandbox.spec.templateName);
        refuseOverQuota(lookup, owner);
        await requestResume(needs, sandbox);
      }
      const key = headers['idempotency-key'];
      const [id = newUuid(clock.now(), random), ...otherIds] =
        key === undefined ? [] : messageIdsOf(keys, owner, name, key);
      const store: Store = (storedBytes, write) =>
        caps.during(owner, { storedBytes }, async () => {
          const written = await write();
          await feeds.conversations.shows(cachedConversation(written));
          return written;
        });
      const number = await queueMessage(client, conversation, id, message, store, otherIds);
      const isDelivered = (seen: CachedConversation | undefined) =>
        (seen?.status?.messages?.lastDelivered ?? 0) >= number;
      if (phase === 'RUNNING') await feeds.conversations.settled(name, isDelivered, deliveryMs);
      if (isDelivered(lookup.cachedConversation(name)))
        return { json: { success: true, sandbox_status: 'RUNNING', queued: false } };
      const sandbox_status = isWoken ? 'STARTING' : phase;
      return { status: 202, json: { success: true, sandbox_status, queued: true } };
    },
  });
