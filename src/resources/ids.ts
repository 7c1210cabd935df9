import { createHash } from 'node:crypto';
import type { KubeObject } from '@conversation-operator/kube/object';

export { conversationIdOfStartTask, startTaskIdOf } from './start-task-id.ts';

/** 32 lower-case hex digits: the form of the ids of conversations and start tasks in REST. */
const canonical = /^[0-9a-f]{32}$/;

export const isCanonicalId = (id: string): boolean => canonical.test(id);

/** A UUIDv8 (RFC 9562 §5.8) derived from a text: the same in every process and at any time. */
export const uuidOf = (text: string): string =>
  uuidOfBytes(createHash('sha256').update(text).digest());

/** A UUIDv8 with 122 bits of a hash or a MAC. */
export function uuidOfBytes(digest: Buffer): string {
  const bytes = Buffer.from(digest.subarray(0, 16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString('hex');
}

/** Whether an id of 32 hex digits is a UUIDv8. Derived ids are UUIDv8, random ids are not. */
export const isDerivedForm = (id: string): boolean => /^.{12}8.{3}[89ab]/.test(id);

/**
 * The REST id of a conversation. The gateway names conversations by UUIDs, and the name is the id.
 * kubectl can create other names: their ids are derived from namespace and name.
 */
export function conversationIdOf(conversation: Pick<KubeObject, 'metadata'>): string {
  const { name, namespace } = conversation.metadata;
  return canonical.test(name) ? name : uuidOf(`conversation/${namespace ?? ''}/${name}`);
}

/** The name of the sandbox for a conversation that names none. */
export const ownSandboxName = (conversationId: string): string => `sbx-${conversationId}`;
