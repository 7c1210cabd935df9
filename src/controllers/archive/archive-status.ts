import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import type { ArchiveStatus } from '../../resources/archive-status.ts';
import { findCondition, setConditions } from '../../resources/conditions.ts';
import { conversations } from '../../resources/conversation.ts';
import { storedConversation } from '../stored-object.ts';
import { archivedCondition, archivedUpdate, type ArchiveReason } from './conditions.ts';

export interface ArchiveChange {
  /** New value of `status.archive`. Absent: it stays. */
  readonly archive?: ArchiveStatus | undefined;
  readonly reason?: ArchiveReason | undefined;
}

export interface ArchiveStatusOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  /**
   * Called with each version that is read or stored: the next attempt has to begin with it, also
   * where a cache does not show it yet.
   */
  readonly observe?: (conversation: CachedConversation) => void;
}

/** Attempts against other writers of the status, which write at most every second. */
const maxAttempts = 5;

/**
 * Stores what is archived, unless another writer has stored another head since `known` was read, or
 * the archive has expired since. Returns the conversation as stored, or as it is without a change;
 * undefined when another head is stored, or the conversation is gone.
 */
export async function storeArchiveStatus(
  { client, clock, observe = () => undefined }: ArchiveStatusOptions,
  known: CachedConversation,
  { archive, reason }: ArchiveChange,
  signal: AbortSignal,
): Promise<CachedConversation | undefined> {
  let current = known;
  for (let attempt = 1; ; attempt++) {
    const { status = {}, metadata } = current;
    if (metadata.deletionTimestamp !== undefined) return undefined;
    if (!isSameArchive(status.archive, known.status?.archive)) return undefined;
    const shown = findCondition(status.conditions, archivedCondition)?.reason;
    const isShown = reason === undefined || shown === reason;
    if (archive === undefined && isShown) return current;
    const next = {
      ...status,
      ...(archive === undefined ? {} : { archive }),
      ...(isShown
        ? {}
        : {
            conditions: setConditions(
              status.conditions,
              [archivedUpdate(reason)],
              metadata.generation,
              isoTime(clock),
            ),
          }),
    };
    try {
      const answer = await client.updateStatus(
        conversations,
        { ...current, status: next },
        { signal, from: current.status },
      );
      const updated = cachedConversation(answer);
      observe(updated);
      return updated;
    } catch (error) {
      if (isNotFound(error)) return undefined;
      if (!isConflict(error) || attempt === maxAttempts) throw error;
    }
    const stored = await storedConversation(client, known, signal);
    if (stored === undefined) return undefined;
    current = cachedConversation(stored);
    observe(current);
  }
}

/**
 * Whether a head belongs behind another one. Between two states without a head there may have been
 * an archive, whose expiry deletes the objects of the first one.
 */
const isSameArchive = (one: ArchiveStatus | undefined, other: ArchiveStatus | undefined): boolean =>
  one?.head === other?.head && one?.expiredTime === other?.expiredTime;
