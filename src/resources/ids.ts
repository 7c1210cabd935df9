import { createHash } from 'node:crypto';
import type { KubeObject } from '@conversation-operator/kube/object';

export { conversationIdOfStartTask, startTaskIdOf } from './start-task-id.ts';

/**
 * 32 lower-case hex digits, the form in which REST answers carry the ids of conversations and start
 * tasks.
 */
const canonical = /^[0-9a-f]{32}$/;

/**
 * A UUIDv8 (RFC 9562 §5.8) made of a text: the same text, the same id, on every replica and for
 * ever.
 */
export const uuidOf = (text: string): string =>
  uuidOfBytes(createHash('sha256').update(text).digest());

/** A UUIDv8 with 122 bits of a hash or a MAC. */
export function uuidOfBytes(digest: Buffer): string {
  const bytes = Buffer.from(digest.subarray(0, 16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString('hex');
}

/**
 * Whether an id of 32 hex digits is a UUIDv8. All ids that the service derives are, and none that
 * it draws at random.
 */
export const isDerivedForm = (id: string): boolean => /^.{12}8.{3}[89ab]/.test(id);

/**
 * The REST id of a conversation: its name where that is a UUID (always so when the gateway made
 * it), else one made of its namespace and name, so that conversations applied with kubectl under a
 * name of their own are served as well.
 */
export function conversationIdOf(conversation: Pick<KubeObject, 'metadata'>): string {
  const { name, namespace } = conversation.metadata;
  return canonical.test(name) ? name : uuidOf(`conversation/${namespace ?? ''}/${name}`);
}

/** The sandbox that a conversation gets when it names none. */
export const ownSandboxName = (conversationId: string): string => `sbx-${conversationId}`;
