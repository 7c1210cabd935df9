import type { ArchiveStatus, StartStatus } from '../../resources/conversation-status.ts';
import { isStartOver } from '../../resources/conversation.ts';
import type { SandboxView } from '../../status/sandbox-phase.ts';
import { ProblemError } from '../errors/problem-error.ts';

export interface HistoryFacts {
  readonly start: StartStatus;
  readonly phase: SandboxView['phase'];
  /** Whether the sandbox is paused, and its agent still answers. */
  readonly isStopping: boolean;
  /** Whether the gateway reads archives at all. */
  readonly readsArchives: boolean;
  readonly archive: ArchiveStatus | undefined;
}

/** Why there are no events to read. */
type NoHistory = 'archive-disabled' | 'archive-empty' | 'archive-expired';

/**
 * Where the events of a conversation are: with its agent, in the archive, or nowhere yet, because
 * the start is not over.
 */
export type HistorySource =
  | { readonly from: 'agent' | 'nowhere' }
  | { readonly from: 'archive'; readonly head: string }
  | { readonly from: 'none'; readonly code: NoHistory };

/** Pure. */
export function historySourceOf(facts: HistoryFacts): HistorySource {
  if (!isStartOver(facts.start)) return { from: 'nowhere' };
  // The archive lacks the last events until the end of the stop.
  const isWithAgent = facts.phase === 'RUNNING' || (facts.isStopping && facts.readsArchives);
  return isWithAgent ? { from: 'agent' } : archiveSourceOf(facts);
}

/** The same where the agent can not be asked. Pure. */
export function archiveSourceOf({
  readsArchives,
  archive,
}: Pick<HistoryFacts, 'readsArchives' | 'archive'>): Exclude<
  HistorySource,
  { readonly from: 'agent' | 'nowhere' }
> {
  if (!readsArchives) return { from: 'none', code: 'archive-disabled' };
  if (archive?.head !== undefined) return { from: 'archive', head: archive.head };
  const isExpired = archive?.expiredTime !== undefined;
  return { from: 'none', code: isExpired ? 'archive-expired' : 'archive-empty' };
}

const details: Readonly<Record<NoHistory, string>> = {
  'archive-disabled':
    'This service keeps no history: the events are with the agent, which answers while its sandbox runs.',
  'archive-empty':
    'No event of this conversation is archived. Its agent answers while its sandbox runs.',
  'archive-expired':
    'The history of this conversation was deleted, because its retention was over.',
};

export const noHistory = (code: NoHistory, cause?: unknown): ProblemError =>
  new ProblemError(code, details[code], { cause });

/** Whether the archive of a conversation was read, and there is none. */
export const isNoHistory = (error: unknown): boolean =>
  error instanceof ProblemError && Object.hasOwn(details, error.code);
