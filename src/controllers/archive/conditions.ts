import { ArchiveError } from '../../archive/layout.ts';
import { conditionUpdate, type ConditionUpdate } from '../../resources/conditions.ts';
import { StoreError } from '@conversation-operator/object-store/store-error';

/** Type of the condition of a Conversation. */
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

export const archivedUpdate = (reason: ArchiveReason): ConditionUpdate =>
  conditionUpdate(archivedCondition, isGood(reason), reason, messages[reason]);

/** Type of the condition of a SandboxTemplate; absent where its namespace was always swept. */
export const archivesSweptCondition = 'ArchivesSwept';
/** Reason of the condition, and of the Event, where a sweep deletes nothing. */
export const tooManyOrphans = 'TooManyOrphans';

/** The condition of a sweep; `stop` where too many of the archives are orphans. */
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

/** The reasons of a failure. */
export type ArchiveFailure = Extract<
  ArchiveReason,
  'StoreDenied' | 'StoreUnavailable' | 'ArchiveDamaged' | 'AgentUnreadable'
>;

/** The reason that an error of the store or of the archive has; undefined for other errors. */
export function reasonOf(error: unknown): ArchiveFailure | undefined {
  if (error instanceof ArchiveError) return ArchiveReason.damaged;
  if (!(error instanceof StoreError)) return undefined;
  return error.code === 'denied' || error.code === 'missing' || error.code === 'invalid'
    ? ArchiveReason.storeDenied
    : ArchiveReason.storeUnavailable;
}
