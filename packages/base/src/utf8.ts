import { isUtf8 } from 'node:buffer';

/** The same bytes where they are UTF-8; otherwise a copy with U+FFFD in place of what is not. */
export const validUtf8 = (bytes: Buffer): Buffer =>
  isUtf8(bytes) ? bytes : Buffer.from(bytes.toString());
