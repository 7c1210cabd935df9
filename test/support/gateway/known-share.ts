import { generateKey, hashKey } from '../../../src/gateway/auth/key.ts';
import { shareNameOf } from '../../../src/resources/share.ts';

/** A token that tests know before its share exists. */
export const knownToken = generateKey((bytes) => Buffer.alloc(bytes, 7), 'cs_');
export const knownDigest = hashKey(knownToken);
export const knownShare = shareNameOf(knownDigest);
