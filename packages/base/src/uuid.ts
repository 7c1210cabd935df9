import { randomBytes } from 'node:crypto';

const accepted = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

/** Returns a UUID, with dashes or not, as 32 lower-case hex digits; undefined for other texts. */
export const parseUuid = (text: string): string | undefined =>
  accepted.test(text) ? text.replaceAll('-', '').toLowerCase() : undefined;

/** Returns 32 hex digits as a UUID with dashes, which the protocol of the agent prefers. */
export const dashedUuid = (hex: string): string =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;

/**
 * Returns a UUIDv7 (RFC 9562 §5.7), which begins with the time in milliseconds, and therefore sorts
 * objects whose `creationTimestamp`, which has only seconds, is equal.
 */
export function newUuid(nowMs: number, random: (bytes: number) => Buffer = randomBytes): string {
  const bytes = Buffer.concat([Buffer.alloc(6), random(10)]);
  bytes.writeUIntBE(nowMs, 0, 6);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x70;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString('hex');
}
