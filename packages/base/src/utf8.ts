import { isUtf8 } from 'node:buffer';

/** The same bytes where they are valid UTF-8; otherwise a copy with U+FFFD for invalid bytes. */
export const validUtf8 = (bytes: Buffer): Buffer =>
  isUtf8(bytes) ? bytes : Buffer.from(bytes.toString());
