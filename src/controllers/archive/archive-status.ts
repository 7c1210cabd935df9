import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import type { ArchiveStatus } from '../../resources/conversation-status.ts';
import {
  findCondition,
  setConditions,
  conditionUpdate,
  type ConditionUpdate,
} from '../../resources/conditions.ts';
import { conversations } from '../../resources/conversation.ts';
import { storedConversation } from '../stored-object.ts';
import { ArchiveError } from '../../archive/layout.ts';
import { StoreError } from '@conversation-operator/object-store/object-store';

export const archivedCondition = 'Archived';

export const ArchiveReason = {
  following: 'Following',
  complete: 'Complete',
  incomplete: 'Incomplete',
  expired: 'Expired',
  limitReached: 'LimitReached',
  ownerLimitReached: 'OwnerLimitReached',
  storeDenied: 'StoreDenied',
  storeUnavailable: 'StoreUnavailable',
  damaged: 'ArchiveDamaged',
  agentUnreadable: 'AgentUnreadable',
} as const;
export type ArchiveReason = (typeof ArchiveReason)[keyof typeof ArchiveReason];

const messages: Readonly<Record<ArchiveReason, string>> = {
  Following: 'The archive has the events of the agent, except those of the last 30 seconds.',
  Complete: 'The archive has all events of the agent.',
  Incomplete:
    'The sandbox was paused before the archive had all events. The rest follows when the sandbox runs again.',
  Expired: 'The archive was deleted, because its retention was over.',
  LimitReached:
    'The archive has reached the maximum size of a conversation, so later events are missing.',
  OwnerLimitReached:
    'The archives of the owner have reached their maximum size, so later events are missing.',
  StoreDenied: 'The store of the archive does not allow the operator to write.',
  StoreUnavailable: 'The store of the archive does not answer. The operator tries again.',
  ArchiveDamaged: 'An object of the archive is damaged, or its key is not known.',
  AgentUnreadable: 'The operator can not read the events of the agent.',
};

const isGood = (reason: ArchiveReason): boolean =>
  reason === ArchiveReason.following || reason === ArchiveReason.complete;

const archivedUpdate = (reason: ArchiveReason): ConditionUpdate =>
  conditionUpdate(archivedCondition, isGood(reason), reason, messages[reason]);

/** Condition of a SandboxTemplate, which is absent unless a sweep has found too many orphans. */
export const archivesSweptCondition = 'ArchivesSwept';
/** Reason of the condition and of the Event when a sweep deletes nothing. */
export const tooManyOrphans = 'TooManyOrphans';

/** The condition after a sweep; `stop` is present if too many archives have no Conversation. */
export const sweptUpdate = (
  stop: { readonly orphans: number; readonly archives: number } | undefined,
): ConditionUpdate =>
  stop === undefined
    ? conditionUpdate(
        archivesSweptCondition,
        true,
        'Swept',
        'The operator deletes archives that have had no Conversation for a day.',
      )
    : conditionUpdate(
        archivesSweptCondition,
        false,
        tooManyOrphans,
        `${stop.orphans} of ${stop.archives} archives of the namespace have no Conversation, which is more than a tenth, so the operator deletes none of them. Conversations may be missing after a restore of the cluster: restore them first. The command "conversation-operator archive prune" shows the archives and deletes nothing, and "conversation-operator archive export UID" writes the events of one to a file.`,
      );

type ArchiveFailure = Extract<
  ArchiveReason,
  'StoreDenied' | 'StoreUnavailable' | 'ArchiveDamaged' | 'AgentUnreadable'
>;

/** The reason for an error of the store or the archive; undefined for other errors. */
export function reasonOf(error: unknown): ArchiveFailure | undefined {
  if (error instanceof ArchiveError) return ArchiveReason.damaged;
  if (!(error instanceof StoreError)) return undefined;
  return error.code === 'denied' || error.code === 'missing' || error.code === 'invalid'
    ? ArchiveReason.storeDenied
    : ArchiveReason.storeUnavailable;
}

export interface ArchiveChange {
  /** New value of `status.archive`; absent: the value does not change. */
  readonly archive?: ArchiveStatus | undefined;
  readonly reason?: ArchiveReason | undefined;
}

export interface ArchiveStatusOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  /** Called with each version that is read or stored. */
  readonly observe?: (conversation: CachedConversation) => void;
}

/** Maximum attempts after conflicts with other status writers, which write once a second. */
const maxAttempts = 5;

/**
 * Stores `status.archive`. Returns the stored conversation, or the given one if nothing changes.
 * Returns undefined if the conversation is deleted, or if `head` or `expiredTime` in the stored
 * status differs from that of `known`.
 */
export async function storeArchiveStatus(
  { client, clock, observe = () => undefined }: ArchiveStatusOptions,
  known: CachedConversation,
  { archive, reason, signal }: ArchiveChange & { readonly signal: AbortSignal },
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
    const stored = await storedConversation({ client, signal }, known);
    if (stored === undefined) return undefined;
    current = cachedConversation(stored);
    observe(current);
  }
}

/**
 * Whether two states belong to one archive. If neither state has a `head`, the later one may belong
 * to another archive: the first archive has expired in between, as `expiredTime` shows.
 */
const isSameArchive = (one: ArchiveStatus | undefined, other: ArchiveStatus | undefined): boolean =>
  one?.head === other?.head && one?.expiredTime === other?.expiredTime;
