import { isUtf8 } from 'node:buffer';

/** Returns the same buffer if it is valid UTF-8, else a copy with U+FFFD for invalid bytes. */
export const validUtf8 = (bytes: Buffer): Buffer =>
  isUtf8(bytes) ? bytes : Buffer.from(bytes.toString());
