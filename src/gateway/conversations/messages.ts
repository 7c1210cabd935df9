import { requireTemplate } from '../auth/key-ring.ts';
import { conversationParams } from '../http/fields.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { z } from 'zod';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import {
  startStatusOf,
  conversations,
  maxMessages,
  undeliveredMessages,
  type Conversation,
  type LaterMessage,
  type Message,
} from '../../resources/conversation.ts';
import { sandboxStatuses } from '../../resources/conversation-status.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { type Route, endpoints, changeableConversation } from '../http/route.ts';
import { invalidField } from '../errors/validation.ts';
import { refuseMoved, storedWithSandbox } from '../lookup/stored.ts';
import { sandboxViewOf } from '../presenters/conversation.ts';
import { idempotencyHeaders, messageIdsOf } from './idempotency.ts';
import { refuseOverQuota } from '../quota/quota.ts';
import { comesBackFromError, refuseUnusable, requestResume } from '../sandboxes/resume.ts';
import type { StartNeeds } from './start.ts';
import { messageOf, sendMessageSchema } from '../presenters/message.ts';
import { found, isConflict, mayBeExecuted } from '@conversation-operator/kube/errors';
import { ProblemError } from '../errors/problem-error.ts';
import { notFound, unavailable } from '../errors/common-problems.ts';

/**
 * Maximum bytes of `spec.messages` as JSON in UTF-8, so that an object with the largest initial
 * message stays below the limit of etcd.
 */
const maxBytes = 384 * 1024;
/** Maximum delivered messages that are kept to recognize a repeated request. */
const maxKeptDelivered = 8;
const maxAttempts = 12;
const retryAfterSeconds = 10;

const bytesOf = (message: LaterMessage): number => Buffer.byteLength(JSON.stringify(message));

/** The last delivered messages that fit into `maxBytes` together with the undelivered messages. */
function recentlyDelivered(
  conversation: Conversation,
  waitingBytes: number,
): readonly LaterMessage[] {
  const delivered = conversation.status?.messages?.lastDelivered ?? 0;
  let left = maxBytes - waitingBytes;
  const kept: LaterMessage[] = [];
  for (const message of (conversation.spec.messages ?? []).toSorted(
    (one, other) => other.number - one.number,
  )) {
    if (message.number > delivered) continue;
    left -= bytesOf(message);
    if (left < 0 || kept.length === maxKeptDelivered) break;
    kept.unshift(message);
  }
  return kept;
}

/** The messages to store, with the new one last; throws `message-queue-full` if it does not fit. */
function withMessage(conversation: Conversation, message: LaterMessage): readonly LaterMessage[] {
  const waiting = undeliveredMessages(conversation);
  const bytes = totalBytes([...waiting, message]);
  const maxWaiting = maxMessages - maxKeptDelivered;
  if (waiting.length >= maxWaiting || (waiting.length > 0 && bytes > maxBytes)) {
    throw new ProblemError(
      'message-queue-full',
      `At most ${maxWaiting} messages with ${maxBytes / 1024} KiB may wait for the agent, and ${waiting.length} do. Try again when it has received some.`,
      { retryAfterSeconds },
    );
  }
  return [...recentlyDelivered(conversation, bytes), ...waiting, message];
}

/** Whether a message is too large even for an empty queue. */
const isTooLarge = (message: Message): boolean =>
  bytesOf({ ...message, id: 'x'.repeat(64), number: 1_000_000_000 }) > maxBytes;

/** Runs a write that adds this number of stored bytes; throws if the quota does not allow them. */
type Store = (bytes: number, write: () => Promise<Conversation>) => Promise<Conversation>;

const totalBytes = (messages: readonly LaterMessage[]): number =>
  messages.reduce((total, one) => total + bytesOf(one), 0);

/**
 * Appends a message for the agent, once for each id. `otherIds` are other ids under which an
 * earlier request may have stored the same message. The write names the resourceVersion that was
 * read, so a write without a response either shows in the next read or never takes effect. Returns
 * the number of the message.
 */
export async function queueMessage(
  client: KubeClient,
  conversation: Conversation,
  id: string,
  message: Message,
  store: Store = (_bytes, write) => write(),
  otherIds: readonly string[] = [],
): Promise<number> {
  const { namespace, name } = conversation.metadata;
  let lost: Error | undefined;
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const stored = await found(client.get(conversations, namespace, name));
    if (stored === undefined) throw notFound('conversation');
    refuseMoved('conversation', stored, conversation);
    const { messages = [] } = stored.spec;
    const same = messages.find((known) => known.id === id || otherIds.includes(known.id));
    if (same !== undefined) return sameAs(same, message);
    const number =
      Math.max(
        stored.status?.messages?.lastDelivered ?? 0,
        ...messages.map((known) => known.number),
      ) + 1;
    const { resourceVersion } = stored.metadata;
    const spec = { messages: withMessage(stored, { ...message, id, number }) };
    const write = () =>
      client.mergePatch(conversations, namespace, name, { metadata: { resourceVersion }, spec });
    try {
      await store(totalBytes(spec.messages) - totalBytes(messages), write);
      return number;
    } catch (error) {
      if (mayBeExecuted(error)) lost = error;
      else if (!isConflict(error)) throw error;
    }
  }
  if (lost !== undefined) throw unavailable(undefined, lost);
  throw new ProblemError('conflict', 'The conversation changes too fast. Try again.');
}

/** The message as a text that does not depend on the order of stored fields. */
const canonical = ({ role, content, run }: Message): string =>
  JSON.stringify([
    role,
    run,
    content.map(({ type, text = null, imageUrls = null }) => [type, text, imageUrls]),
  ]);

function sameAs(known: LaterMessage, message: Message): number {
  if (canonical(known) === canonical(message)) return known.number;
  throw new ProblemError(
    'idempotency-key-reused',
    'Another message was sent with this Idempotency-Key.',
  );
}

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
      if (isTooLarge(message))
        throw invalidField('body.content', `must have at most ${maxBytes} bytes`);
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
