import type { KubeClient } from '@conversation-operator/kube/client';
import { found, isConflict, mayBeExecuted } from '@conversation-operator/kube/errors';
import {
  conversations,
  maxMessages,
  undeliveredMessages,
  type Conversation,
  type LaterMessage,
  type Message,
} from '../../resources/conversation.ts';
import { ProblemError, notFound, unavailable } from '../errors/problem-error.ts';
import type { Reservation } from '../lookup/storage-caps.ts';

/**
 * Maximum bytes of all kept messages as JSON in UTF-8, so that an object with the largest first
 * message stays below the limit of etcd.
 */
const maxBytes = 384 * 1024;
/**
 * Maximum number of delivered messages that are kept, so that a message that is sent again is
 * recognized.
 */
const maxKeptDelivered = 8;
const maxAttempts = 12;
const retryAfterSeconds = 10;

export interface QueuedMessage {
  readonly conversation: Conversation;
  readonly number: number;
  /**
   * The caller releases it when the caches show the message; undefined where the message was stored
   * already.
   */
  readonly reservation: Reservation | undefined;
}

const bytesOf = (message: LaterMessage): number => Buffer.byteLength(JSON.stringify(message));

/** The last delivered messages, as many as fit beside the undelivered ones. */
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

/**
 * The messages of the conversation with the new one; throws `message-queue-full` where it does not
 * fit.
 */
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

/** Whether a message on its own is too large to be kept. */
export const isTooLarge = (message: Message): boolean =>
  bytesOf({ ...message, id: 'x'.repeat(64), number: 1_000_000_000 }) > maxBytes;
export const maxQueuedBytes = maxBytes;

/** Takes room for bytes that are to be stored; throws where there is none. */
export type TakeRoom = (bytes: number) => Reservation;
const unlimited: TakeRoom = () => ({ release: () => undefined, releaseWhenShown: () => undefined });

const totalBytes = (messages: readonly LaterMessage[]): number =>
  messages.reduce((total, one) => total + bytesOf(one), 0);

/**
 * Stores a message for the agent: after the stored ones, and once, however often it is called with
 * the same id. `otherIds` are ids that the same message may have had before. The write names the
 * version that was read, so that a write whose outcome is unknown either shows in the next read or
 * never takes effect after it.
 */
export async function queueMessage(
  client: KubeClient,
  { metadata: { namespace, name, uid } }: Conversation,
  id: string,
  message: Message,
  takeRoom: TakeRoom = unlimited,
  otherIds: readonly string[] = [],
): Promise<QueuedMessage> {
  let lost: Error | undefined;
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const stored = await found(client.get(conversations, namespace, name));
    if (stored?.metadata.uid !== uid || stored.metadata.deletionTimestamp !== undefined)
      throw notFound('conversation');
    const { messages = [] } = stored.spec;
    const same = messages.find((known) => known.id === id || otherIds.includes(known.id));
    if (same !== undefined)
      return { conversation: stored, number: sameAs(same, message), reservation: undefined };
    const number =
      Math.max(
        stored.status?.messages?.lastDelivered ?? 0,
        ...messages.map((known) => known.number),
      ) + 1;
    const { resourceVersion } = stored.metadata;
    const spec = { messages: withMessage(stored, { ...message, id, number }) };
    const reservation = takeRoom(totalBytes(spec.messages) - totalBytes(messages));
    try {
      const conversation = await client.mergePatch(conversations, namespace, name, {
        metadata: { resourceVersion },
        spec,
      });
      return { conversation, number, reservation };
    } catch (error) {
      reservation.release();
      if (mayBeExecuted(error)) lost = error;
      else if (!isConflict(error)) throw error;
    }
  }
  if (lost !== undefined) throw unavailable(undefined, lost);
  throw new ProblemError('conflict', 'The conversation changes too fast. Try again.');
}

/** Whatever order the fields are stored in. */
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
