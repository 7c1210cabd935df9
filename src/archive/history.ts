import type { ArchiveAddress, ArchiveState } from './layout.ts';
import type { TextQuery } from './text-fold.ts';
import type { WorkspaceSnapshot } from './workspace-snapshot.ts';

export interface HistoryFilter {
  readonly kind?: string | undefined;
  /** Events from `from` until before `before`: agent-local RFC 3339 without a zone, as texts. */
  readonly from?: string | undefined;
  readonly before?: string | undefined;
}

export interface HistoryQuery extends HistoryFilter {
  /** Whether the newest events come first. */
  readonly descending: boolean;
  /**
   * `nextPageId` of an earlier page, or the id of an event. An unknown id counts as newer than the
   * archive: the page is empty, or the first one where the newest events come first.
   */
  readonly pageId?: string | undefined;
  /** 1 to 100. */
  readonly limit: number;
}

export interface HistoryEvent {
  readonly id: string;
  /** Number of events before this one. */
  readonly position: number;
  /** The JSON of the agent, in one line, in UTF-8. */
  readonly json: Buffer;
}

export interface HistoryPage {
  /** At most `limit`; fewer where more would have too many bytes. */
  readonly events: readonly HistoryEvent[];
  /** Null: no further event. */
  readonly nextPageId: string | null;
}

export interface FoundEvent {
  readonly id: string;
  /** Number of events before this one. */
  readonly position: number;
  readonly kind: string;
  /** Local time of the agent. */
  readonly timestamp: string | undefined;
  /** One line around the first match in the texts, with `…` where it is truncated. */
  readonly snippet: string;
}

export interface FoundPart {
  /** Position from which on all events have been searched. */
  readonly from: number;
  /** Newest first. */
  readonly found: readonly FoundEvent[];
}

/**
 * Reads archives. Every method throws `StoreError`, and `ArchiveError` where the objects of the
 * archive are gone (`gone`: the head is outdated, or the archive was deleted) or damaged.
 */
export interface HistoryReader {
  /** A page in the order of the agent's log. */
  search(state: ArchiveState, query: HistoryQuery, signal?: AbortSignal): Promise<HistoryPage>;
  count(state: ArchiveState, filter: HistoryFilter, signal?: AbortSignal): Promise<number>;
  /** Events with these ids in any order, without unknown ones; at most one frame in memory. */
  byIds(
    state: ArchiveState,
    ids: readonly string[],
    signal?: AbortSignal,
  ): AsyncIterable<HistoryEvent>;
  /**
   * All events from a position on, in parts of about 100, oldest first. Throws `damaged` also
   * where the number of events is not that of the head.
   */
  all(
    state: ArchiveState,
    from?: number,
    signal?: AbortSignal,
  ): AsyncIterable<readonly HistoryEvent[]>;
  /**
   * Searches the texts of the events before a position, the newest first, part by part: each of
   * them takes some milliseconds, and the caller may stop after any.
   */
  find(
    state: ArchiveState,
    query: TextQuery,
    before: number,
    signal?: AbortSignal,
  ): AsyncIterable<FoundPart>;
  /**
   * Newest state in the store, where the Conversation names no existing head; undefined: none.
   * @param expiredTime `status.archive.expiredTime`: what is older is never found.
   */
  newest(
    address: ArchiveAddress,
    expiredTime: string | undefined,
    signal?: AbortSignal,
  ): Promise<ArchiveState | undefined>;
  /** Files at the last pause of the sandbox; undefined where there is no snapshot. */
  files(state: ArchiveState, signal?: AbortSignal): Promise<WorkspaceSnapshot | undefined>;
}
