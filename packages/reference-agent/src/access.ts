import { createHash, timingSafeEqual } from 'node:crypto';

/**
 * Returns whether the candidate is one of the keys. The comparison takes constant time, so its
 * duration reveals nothing about the keys.
 */
export function acceptsKey(keys: readonly string[], candidate: string | undefined): boolean {
  if (candidate === undefined) return false;
  const given = digest(candidate);
  return keys.map((key) => timingSafeEqual(digest(key), given)).includes(true);
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
