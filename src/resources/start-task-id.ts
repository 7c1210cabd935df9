/** The mask is 0 at the version and variant bits of a UUID, so the XOR of a UUID is a UUID. */
const mask = '6f1d2a84c3b70e59158fd06b72a4e913';

const xor = (hex: string): string =>
  Array.from(hex, (digit, index) =>
    (Number.parseInt(digit, 16) ^ Number.parseInt(mask[index] ?? '0', 16)).toString(16),
  ).join('');

/**
 * The id of a conversation's start task. Its inverse is `conversationIdOfStartTask`, so that either
 * id identifies the resource without an index.
 */
export const startTaskIdOf = (conversationId: string): string => xor(conversationId);
export const conversationIdOfStartTask = (startTaskId: string): string => xor(startTaskId);
