import { z } from 'zod';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { uuidOf } from '../../resources/ids.ts';
import type { Services } from '../app/services.ts';

/** For so long the same key means the same start. */
const windowMs = 24 * 60 * 60 * 1000;
/** Names of one key that are looked for in the cache, whatever has become of those before them. */
const knownNames = 4;

export const idempotencyHeaders = z.object({
  'idempotency-key': z
    .string()
    .min(1, 'must not be empty')
    .max(255)
    .regex(/^[\x20-\x7e]+$/, 'must be printable ASCII')
    .optional()
    .meta({
      description:
        'Makes the request repeatable: within 24 hours the same key with the same body gives the first answer, with another body 422. ' +
        'Beside a conversation_id it says nothing: that makes a start repeatable by itself.',
    }),
});

/**
 * The names that an owner's key stands for, one after the other: each is for the first start with the key after 24 hours. They
 * follow from the key alone, so every replica, also one that has just started, comes to the same.
 */
const nameOf = (owner: string, key: string, turn: number): string => uuidOf(`idempotency/${owner}/${turn}/${key}`);

/** The conversation that an owner has started with a key in the last 24 hours, or else the name for a new one. */
export async function placeOf(
  { records, clock }: Pick<Services, 'records' | 'clock'>,
  owner: string,
  key: string,
): Promise<{ readonly name: string; readonly present: CachedConversation | undefined }> {
  const isFresh = ({ metadata }: CachedConversation) => clock.now() - Date.parse(metadata.creationTimestamp) < windowMs;
  // Of more than one start with this key an earlier one may have been deleted since.
  for (let turn = 0; turn < knownNames; turn++) {
    const name = nameOf(owner, key, turn);
    const cached = records.cachedConversation(name);
    if (cached?.spec.owner === owner && cached.metadata.deletionTimestamp === undefined && isFresh(cached))
      return { name, present: cached };
  }
  for (let turn = 0; ; turn++) {
    const name = nameOf(owner, key, turn);
    const present = await records.conversation(owner, name);
    if (present === undefined || isFresh(present)) return { name, present };
  }
}
