import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { Clock } from '@conversation-operator/base/clock';
import type { SandboxKeys } from '../../agent/keys.ts';
import { z } from 'zod';
import type { CachedConversation } from '../../resources/cached-conversation.ts';

/** Period in which the same idempotency key identifies the same start. */
const windowMs = 24 * 60 * 60 * 1000;
/** Number of values of `turn` (see `namesOf`) for which the cache is searched first. */
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
 * The names of a conversation that an owner starts with an idempotency key; a new conversation gets
 * the first one. `turn` counts the starts with the same key that are at least 24 hours apart. The
 * names derive from the key and the master keys, so every replica computes the same names, even
 * after a restart, and no client can predict or choose them.
 */
const namesOf = (keys: Pick<SandboxKeys, 'derivedIds'>, owner: string, key: string, turn: number) =>
  keys.derivedIds(`idempotency/${owner}/${turn}/${key}`);

/** The ids that a message with this idempotency key can have; a new message gets the first one. */
export const messageIdsOf = (
  keys: Pick<SandboxKeys, 'derivedIds'>,
  owner: string,
  conversation: string,
  key: string,
) => keys.derivedIds(`message/${owner}/${conversation}/${key}`);

/** The conversation that this key has started in the last 24 hours, or the name for a new one. */
export async function placeOf(
  {
    lookup,
    clock,
    keys,
  }: {
    readonly lookup: ResourceLookup;
    readonly clock: Clock;
    readonly keys: Pick<SandboxKeys, 'derivedIds'>;
  },
  owner: string,
  key: string,
): Promise<{ readonly name: string; readonly present: CachedConversation | undefined }> {
  const isFresh = ({ metadata }: CachedConversation) =>
    clock.now() - Date.parse(metadata.creationTimestamp) < windowMs;
  // The conversation of an earlier `turn` may be deleted, so later values are searched too.
  for (let turn = 0; turn < knownNames; turn++) {
    for (const name of namesOf(keys, owner, key, turn)) {
      const cached = lookup.cachedConversation(name);
      if (
        cached?.spec.owner === owner &&
        cached.metadata.deletionTimestamp === undefined &&
        isFresh(cached)
      )
        return { name, present: cached };
    }
  }
  for (let turn = 0; ; turn++) {
    const names = namesOf(keys, owner, key, turn);
    const found = await lookup.conversations(owner, names);
    const present = found.find(
      (conversation) => conversation !== undefined && isFresh(conversation),
    );
    if (present !== undefined) return { name: present.metadata.name, present };
    const [first] = names;
    if (first !== undefined && found[0] === undefined) return { name: first, present: undefined };
  }
}
