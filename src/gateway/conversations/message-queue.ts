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
import { notFound, unavailable } from '../errors/common-problems.ts';
import { refuseMoved } from '../lookup/stored.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { invalidField } from '../errors/validation.ts';

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

/** Throws 422 for a message that is too large even for an empty queue. */
export function refuseTooLarge(message: Message): void {
  if (bytesOf({ ...message, id: 'x'.repeat(64), number: 1_000_000_000 }) > maxBytes)
    throw invalidField('body.content', `must have at most ${maxBytes} bytes`);
}

/** Runs a write that adds this number of stored bytes; throws if the quota does not allow them. */
export type Store = (bytes: number, write: () => Promise<Conversation>) => Promise<Conversation>;

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
        // A handover removes messages whose delivery may be under way.
        stored.status?.messages?.inFlight?.number ?? 0,
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
