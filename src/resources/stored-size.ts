import type { Conversation } from './conversation.ts';

/** Size in bytes of a conversation as it is stored: the whole object as JSON in UTF-8. */
export const storedBytesOf = (conversation: Conversation): number => Buffer.byteLength(JSON.stringify(conversation));
